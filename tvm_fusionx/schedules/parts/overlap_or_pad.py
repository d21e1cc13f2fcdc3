"""Axes that a tile does not divide, without a test or a second loop body inside the tile.

A product in registers is followed by one stage that writes the registers out. Both are widened to a
multiple of the tile, in one of two ways:

*overlap*: the last tile moves back and computes some elements twice, with the same result. For a
stage that writes an output of the function, whose shape is given.

*pad*: the extra elements are computed from the last valid operands and written to a widened
intermediate tensor, where nobody reads them.
"""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.tir.root_block import nests_of, with_root, written_buffer

OVERLAP = "overlap"
PAD = "pad"


def widen_axis(func: Any, reduce: str, write: str, axis: int, tile: int, mode: str) -> Any:
    """Widen an axis of stages `reduce` and `write` to a multiple of `tile`.

    Parameters
    ----------
    func
        A function in which `reduce` writes a local tensor that only `write` reads.
    reduce, write
        Names of the stages; both have the local tensor's axes as their first block variables.
    axis
        Position of the axis among them.
    tile
        Elements of a tile.
    mode
        `OVERLAP` or `PAD`.

    Returns
    -------
    tir.PrimFunc
        The same function; itself when the tile divides the axis.

    Raises
    ------
    UnschedulableError
        In mode `PAD`, when the tensor that `write` writes has no axis of its own for this one: a
        reshape is part of the stage. In mode `OVERLAP`, when the axis is shorter than a tile. In
        either, when a stage already tests the axis.
    """
    root = func.body.block
    local = written_buffer(func, reduce)
    extent = int(local.shape[axis])
    wide_extent = -(-extent // tile) * tile
    if wide_extent == extent:
        return func
    if mode == OVERLAP and tile > extent:
        raise UnschedulableError(f"a tile of {tile} is longer than the axis of {extent}")
    replaced = {local.data: _widened(local, axis, wide_extent)}
    if mode == PAD:
        target = written_buffer(func, write)
        replaced[target.data] = _widened(target, _written_axis(root, write, axis), wide_extent)

    def place(column: Any) -> Any:
        if mode == PAD:
            return tir.Min(column, tir.const(extent - 1, column.dtype))
        start = tir.floordiv(column, tile) * tile
        return tir.Min(start, tir.const(extent - tile, column.dtype)) + tir.floormod(column, tile)

    widened = {reduce, write}
    buffers = {buffer.data: buffer for buffer in [*func.buffer_map.values(), *root.alloc_buffers]}
    buffers |= {buffer.data: buffer for buffer in replaced.values()}
    rewritten = [
        _rewrite_nest(nest, widened, axis, wide_extent, place, replaced, buffers)
        for nest in nests_of(func)
    ]
    allocated = [replaced.get(buffer.data, buffer) for buffer in root.alloc_buffers]
    return with_root(func, tir.SeqStmt(rewritten), allocated)


def _widened(buffer: Any, axis: int, extent: int) -> Any:
    shape = list(buffer.shape)
    shape[axis] = tir.const(extent, shape[axis].dtype)
    return tir.decl_buffer(shape, buffer.dtype, buffer.name, scope=buffer.scope())


def _written_axis(root: Any, name: str, axis: int) -> int:
    """Return the axis of the written tensor that a block variable runs along."""
    found: list[tuple[Any, Any]] = []

    def visit(node: Any) -> None:
        if node.name_hint == name:
            found.append((node.iter_vars[axis].var, node.body.indices))

    tir.stmt_functor.ir_transform(root.body, visit, None, ["tir.Block"])
    variable, indices = found[0]
    uses = [place for place, index in enumerate(indices) if _mentions(index, variable)]
    if len(uses) != 1 or not indices[uses[0]].same_as(variable):
        raise UnschedulableError("what finishes the product splits the axis that a tile widens")
    return uses[0]


def _mentions(expr: Any, variable: Any) -> bool:
    return any(variable.same_as(each) for each in tir.analysis.undefined_vars(expr))


def _rewrite_nest(
    nest: Any,
    widened: set[str],
    axis: int,
    extent: int,
    place: Any,
    replaced: dict[Any, Any],
    buffers: dict[Any, Any],
) -> Any:
    loops = []
    realize = nest
    while isinstance(realize, tir.For):
        loops.append(realize)
        realize = realize.body
    block = realize.block
    is_widened = block.name_hint in widened
    iters = list(block.iter_vars)
    variable = None
    if is_widened:
        if _mentions(realize.predicate, realize.iter_values[axis]):
            raise UnschedulableError("what finishes the product keeps only a part of it")
        variable = iters[axis].var
        iters[axis] = _with_extent(iters[axis], extent)
    body = _redirect(block.body, replaced, variable, place)
    init = None if block.init is None else _redirect(block.init, replaced, variable, place)
    parts = (
        block.name_hint,
        body,
        init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )
    reads, writes, _ = tir.analysis.get_block_access_region(
        tir.Block(iters, [], [], *parts), buffers
    )
    result: Any = tir.BlockRealize(
        realize.iter_values, realize.predicate, tir.Block(iters, reads, writes, *parts)
    )
    for loop in reversed(loops):
        is_axis = is_widened and loop.loop_var.same_as(realize.iter_values[axis])
        size = tir.const(extent, loop.extent.dtype) if is_axis else loop.extent
        result = tir.For(loop.loop_var, loop.min, size, loop.kind, result)
    return result


def _with_extent(it: Any, extent: int) -> Any:
    domain = type(it.dom)(it.dom.min, it.dom.min + tir.const(extent, it.dom.extent.dtype))
    return tir.IterVar(domain, it.var, it.iter_type, it.thread_tag)


def _redirect(stmt: Any, replaced: dict[Any, Any], variable: Any, place: Any) -> Any:
    """Use the replacing buffers, and move `variable` everywhere else."""
    # A stand-in keeps the indices of the replaced buffers out of the substitution.
    own = None if variable is None else tir.Var("own", variable.dtype)

    def rewrite(node: Any) -> Any:
        buffer = replaced.get(node.buffer.data)
        if buffer is None:
            return None
        indices = list(node.indices)
        if own is not None:
            indices = [tir.stmt_functor.substitute(index, {variable: own}) for index in indices]
        if isinstance(node, tir.BufferLoad):
            return tir.BufferLoad(buffer, indices)
        return tir.BufferStore(buffer, node.value, indices)

    stmt = tir.stmt_functor.ir_transform(stmt, None, rewrite, ["tir.BufferLoad", "tir.BufferStore"])
    if variable is None:
        return stmt
    stmt = tir.stmt_functor.substitute(stmt, {variable: place(variable)})
    return tir.stmt_functor.substitute(stmt, {own: variable})
