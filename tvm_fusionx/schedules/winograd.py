"""Convolution by minimal filtering: transformed input, products at every point, transformed back.

The tensor expressions say what is computed; the loops are laid out by hand in
:mod:`tvm_fusionx.schedules.winograd_kernel`, and what follows the convolution in the block is
applied to its registers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.analysis import BlockInfo, describe_block
from tvm_fusionx.schedules.conv_tiling import divisors
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.default import schedule_alone
from tvm_fusionx.schedules.indices import simplify_indices
from tvm_fusionx.schedules.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Template
from tvm_fusionx.schedules.winograd_expression import (
    GEOMETRY,
    STAGE_OUTPUT,
    STAGE_PAD,
    STAGE_PRODUCT,
    STAGES,
)
from tvm_fusionx.schedules.winograd_filtering import FILTERINGS
from tvm_fusionx.schedules.winograd_kernel import build_kernel
from tvm_fusionx.schedules.winograd_tiling import (
    Cut,
    Problem,
    best_cut,
    column_choices,
    tile_choices,
)

KERNEL = "winograd"


def _why_not(info: BlockInfo) -> str | None:
    if not info.stages.keys() >= set(STAGES):
        return "it is no minimal filtering"
    if len(info.reductions) != 1:
        return "it has reductions besides the products"
    if len(info.outputs) != 1:
        return f"it writes {len(info.outputs)} tensors, not one"
    return None


def _operands(info: BlockInfo) -> tuple[Any, Any]:
    """Return the buffers of data and transformed weights."""
    (data,) = info.stages[STAGE_PAD].reads
    written = {buffer.data for name in STAGES for buffer in info.stages[name].writes}
    (weights,) = (
        buffer for buffer in info.stages[STAGE_PRODUCT].reads if buffer.data not in written
    )
    return data, weights


def _problem(info: BlockInfo) -> Problem:
    data, weights = _operands(info)
    output = info.stages[STAGE_OUTPUT]
    tile, top, left = (int(each) for each in output.block.annotations[GEOMETRY])
    return Problem(
        filtering=FILTERINGS[tile],
        in_shape=tuple(int(extent) for extent in data.shape),
        out_shape=output.spatial,
        padding=(top, left),
        panel=int(weights.shape[-1]),
    )


def _knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
    problem = _problem(info)
    cut = best_cut(problem, cpu)
    return {
        "task_tiles": Knob(cut.tiles, tuple(tile_choices(problem))),
        "panel_tasks": Knob(cut.panel_tasks, tuple(divisors(problem.panels))),
        "tile_columns": Knob(cut.columns, tuple(column_choices(problem, cpu))),
    }


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> Any:
    problem, operands = _problem(info), _operands(info)
    tiles = values["task_tiles"]
    cut = Cut(tiles, values["panel_tasks"], min(values["tile_columns"], tiles))
    write = _gather_what_follows(sch, info)
    parallel = should_parallelise(info.stages.values(), info.cpu.cores)

    def kernel(store: Any) -> Any:
        return build_kernel(problem, *operands, cut, store, parallel=parallel)

    func = _replace_stages(simplify_indices(sch.mod["main"]), write, operands, kernel)
    stages = describe_block(func, info.cpu).stages
    if stages.keys() == {KERNEL}:
        return func
    fresh = tir.Schedule(tvm.IRModule({"main": func}), debug_mask="none", error_render_level="none")
    for name, stage in stages.items():
        if name != KERNEL:
            schedule_alone(fresh, name, stage, info.cpu)
    return fresh.mod["main"]


def _gather_what_follows(sch: Any, info: BlockInfo) -> str:
    """Make one stage of what follows, where the axes allow; return its name."""
    after = info.downstream(STAGE_OUTPUT)
    for name in info.stages:
        if name in after and name not in info.outputs:
            with contextlib.suppress(tvm.TVMError):
                sch.compute_inline(sch.get_block(name))
    # It copies, in the convolution's axes; what follows is then inlined into it.
    write = sch.cache_write(sch.get_block(STAGE_OUTPUT), 0, "local")
    if info.outputs[0] in after:
        with contextlib.suppress(tvm.TVMError):
            sch.reverse_compute_inline(sch.get_block(info.outputs[0]))
    return str(sch.get(write).name_hint)


def _replace_stages(
    func: Any, write: str, operands: tuple[Any, Any], kernel: Callable[[Any], Any]
) -> Any:
    """Put the kernel in the place of the convolution's stages and of stage `write`."""
    root = func.body.block
    constants, body = [], root.body
    while isinstance(body, tir.AllocateConst):
        constants.append(body)
        body = body.body
    nests = {_innermost(nest).name_hint: nest for nest in body.seq}
    copy = _innermost(nests[write])
    internal = {_innermost(nests[name]).writes[0].buffer.data for name in STAGES}
    read = [region.buffer for region in copy.reads if region.buffer.data not in internal]
    written = [region.buffer for region in copy.writes]
    block = tir.Block(
        [],
        [tir.BufferRegion(buffer, _whole(buffer)) for buffer in (*operands, *read)],
        [tir.BufferRegion(buffer, _whole(buffer)) for buffer in written],
        KERNEL,
        kernel(_storing(copy, internal)),
    )
    nests[write] = tir.BlockRealize([], tir.const(True, "bool"), block)
    remaining = [nest for name, nest in nests.items() if name not in STAGES]
    body = tir.SeqStmt(remaining) if len(remaining) > 1 else remaining[0]
    for each in reversed(constants):
        body = tir.AllocateConst(
            each.buffer_var, each.dtype, each.extents, each.data, body, each.annotations
        )
    new_root = tir.Block(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        body,
        root.init,
        [buffer for buffer in root.alloc_buffers if buffer.data not in internal],
        root.match_buffers,
        root.annotations,
    )
    return func.with_body(tir.BlockRealize([], func.body.predicate, new_root))


def _innermost(nest: Any) -> Any:
    while isinstance(nest, tir.For):
        nest = nest.body
    return nest.block


def _whole(buffer: Any) -> list[Any]:
    return [tvm.ir.Range(0, extent) for extent in buffer.shape]


def _storing(copy: Any, internal: set[Any]) -> Callable[..., Any]:
    """Return the body of block `copy` as a function of the place and the value it stores."""

    def store(*place_and_value: Any) -> Any:
        *place, value = place_and_value

        def replaced(load: Any) -> Any:
            return value if load.buffer.data in internal else None

        at = {
            it.var: tir.Cast(it.var.dtype, index) if index.dtype != it.var.dtype else index
            for it, index in zip(copy.iter_vars, place, strict=True)
        }
        stmt = tir.stmt_functor.substitute(copy.body, at)
        return tir.stmt_functor.ir_transform(stmt, None, replaced, ["tir.BufferLoad"])

    return store


WINOGRAD = Template("winograd", _why_not, _knobs, _apply)
