"""Put a kernel whose loops are laid out by hand in the place of stages of a block."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.nest import schedule_alone
from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.tir.block import BlockInfo, Stage, collect_blocks, describe_stage
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.inline import why_not_inline
from tvm_fusionx.tir.inline_into_producer import inline_into_producer
from tvm_fusionx.tir.root_block import with_root

# Takes a place, one index an axis, and the value to store there.
Store = Callable[..., Any]

# Takes the function that stores into a buffer, and returns the one that is called with each place
# of a tensor, and a value or None.
Gather = Callable[[Store], Store]


def gather_what_follows(sch: Any, info: BlockInfo, name: str, last: str) -> str:
    """Make one stage of what follows stage `name` up to stage `last`, where the axes allow.

    Returns
    -------
    str
        Name of the stage; its axes are those of `name`. What has no place in these axes (a resize,
        a concatenation) stays a stage behind it.
    """
    wanted = info.upstream(last) | {last}
    after = info.downstream(name) & wanted
    # A stage that reads another one besides is not inlined: so scalars, which read nothing, go, and
    # what other operands come from, as the floats of a residual in bytes.
    beside = {stage for stage in wanted if not info.stages[stage].reads}
    beside |= {
        stage
        for stage in wanted - info.upstream(name) - after - {name}
        if _is_cheap_beside(info, info.stages[stage])
    }
    for stage in info.stages:
        if stage in after | beside and stage != last:
            with contextlib.suppress(tvm.TVMError):
                sch.compute_inline(sch.get_block(stage))
    # It copies, in the axes of `name`; what follows is then inlined into it.
    write = sch.cache_write(sch.get_block(name), 0, "local")
    if last in after:
        inline_into_producer(sch, last)
    return str(sch.get(write).name_hint)


def _is_cheap_beside(info: BlockInfo, stage: Stage) -> bool:
    """Tell whether a stage beside a product may be computed where its result is read."""
    return why_not_inline(info, stage, stage.expensive, stage.nodes) is None


def stage_nests(func: Any) -> dict[str, Any]:
    """Return the block at the heart of each loop nest of an unscheduled function, by name.

    Where a nest leaves places out, as one of padded channels that are cut off does, the body of its
    block tests for them.
    """
    body = func.body.block.body
    while isinstance(body, tir.AllocateConst):
        body = body.body
    nests = body.seq if isinstance(body, tir.SeqStmt) else [body]
    blocks = [_testing(_innermost(nest)) for nest in nests]
    return {block.name_hint: block for block in blocks}


def storing(copy: Any, internal: Collection[Any], redirect: Store | None = None) -> Store:
    """Return the body of block `copy` as a function of the place and the value it stores.

    Parameters
    ----------
    copy
        A block that reads a buffer of `internal` at its own place.
    internal
        Variables of the buffers that the value stands for.
    redirect
        Takes place and value and returns the statement that stores it; the block's own when None.
    """

    def store(*place_and_value: Any) -> Any:
        *place, value = place_and_value

        def replaced(load: Any) -> Any:
            return value if load.buffer.data in internal else None

        at = {
            it.var: tir.Cast(it.var.dtype, index) if index.dtype != it.var.dtype else index
            for it, index in zip(copy.iter_vars, place, strict=True)
        }
        stmt = tir.stmt_functor.substitute(copy.body, at)
        stmt = tir.stmt_functor.ir_transform(stmt, None, replaced, ["tir.BufferLoad"])
        return stmt if redirect is None else redirect(*place, stmt.value)

    return store


def replace_stages(
    func: Any, stages: Collection[str], write: str, operands: Sequence[Any], name: str, kernel: Any
) -> Any:
    """Put statement `kernel` in the place of `stages` and of stage `write`.

    Parameters
    ----------
    func
        An unscheduled function.
    stages
        Names of stages whose results the kernel keeps to itself.
    write
        Name of the stage whose result the kernel writes.
    operands
        Buffers that the kernel reads besides those that `write` and `stages` read.
    name
        Name of the block that the kernel becomes.
    kernel
        The statement.

    Raises
    ------
    UnschedulableError
        The kernel has another view of a buffer that later stages read: TVM takes it for a second
        buffer in the same place, and lowers no such block.
    """
    root = func.body.block
    constants, body = [], root.body
    while isinstance(body, tir.AllocateConst):
        constants.append(body)
        body = body.body
    found = body.seq if isinstance(body, tir.SeqStmt) else [body]
    nests = {_innermost(nest).block.name_hint: nest for nest in found}
    replaced = [_innermost(nests[stage]).block for stage in stages]
    internal = {region.buffer.data for block in replaced for region in block.writes}
    copy = _innermost(nests[write]).block
    read = {
        region.buffer.data: region.buffer
        for block in (*replaced, copy)
        for region in block.reads
        if region.buffer.data not in internal
    } | {buffer.data: buffer for buffer in operands}
    written = [region.buffer for region in copy.writes]
    block = tir.Block(
        [],
        [tir.BufferRegion(buffer, _whole(buffer)) for buffer in read.values()],
        [tir.BufferRegion(buffer, _whole(buffer)) for buffer in written],
        name,
        kernel,
    )
    nests[write] = tir.BlockRealize([], tir.const(True, "bool"), block)
    remaining = [nest for stage, nest in nests.items() if stage not in stages]
    body = tir.SeqStmt(remaining) if len(remaining) > 1 else remaining[0]
    for each in reversed(constants):
        body = tir.AllocateConst(
            each.buffer_var, each.dtype, each.extents, each.data, body, each.annotations
        )
    kept = [buffer for buffer in root.alloc_buffers if buffer.data not in internal]
    if _has_views(kernel, kept):
        raise UnschedulableError("it stores a result that another stage reads as a row of numbers")
    return with_root(func, body, kept)


def _has_views(kernel: Any, buffers: Sequence[Any]) -> bool:
    """Tell whether a statement reads or writes one of some buffers in another shape."""
    shapes = {buffer.data: buffer for buffer in buffers}
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad | tir.BufferStore):
            buffer = shapes.get(node.buffer.data)
            if buffer is not None and not buffer.same_as(node.buffer):
                found.append(node)

    tir.stmt_functor.post_order_visit(kernel, visit)
    return bool(found)


def schedule_around(func: Any, kernel: str, cpu: Cpu) -> Any:
    """Return `func` with loop nests of their own for all stages but the finished `kernel`."""
    # The kernel itself is not described: it has thousands of accesses.
    others = [block for block in collect_blocks(func) if block.name_hint != kernel]
    if not others:
        return func
    fresh = fresh_schedule(func)
    for block in others:
        schedule_alone(fresh, block.name_hint, describe_stage(block), cpu)
    return fresh.mod["main"]


def _innermost(nest: Any) -> Any:
    while isinstance(nest, tir.For):
        nest = nest.body
    return nest


def _testing(realize: Any) -> Any:
    """Return the block of `realize`, its predicate as a test of its own axes in its body."""
    block, test = realize.block, realize.predicate
    if isinstance(test, tir.IntImm):
        return block
    axes = {
        at: it.var
        for it, at in zip(block.iter_vars, realize.iter_values, strict=True)
        if isinstance(at, tir.Var)
    }
    body = tir.IfThenElse(tir.stmt_functor.substitute(test, axes), block.body, None)
    return tir.Block(block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init)


def _whole(buffer: Any) -> list[Any]:
    return [tvm.ir.Range(0, extent) for extent in buffer.shape]
