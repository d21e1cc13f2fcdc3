"""Long sums of fewer rows than cores, cut into parts that the cores share.

A norm over a whole image is one sum of millions: a single row, that one core would add up. It
becomes some sums of a part each, which are rows as others are, and a short one of these.
"""

from __future__ import annotations

import math
from typing import Any

from tvm import tir

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.parallelism import operations_of
from tvm_fusionx.schedules.parts.tasks import TASKS_A_CORE
from tvm_fusionx.schedules.rows.lane_reductions import (
    LONG_ROW_GROUPS,
    Nest,
    Row,
    Split,
    why_not_in_parts,
    with_split_stages,
)
from tvm_fusionx.tir.block import Iter, Stage, collect_blocks

PARTS_SUFFIX = "_parts"


def share_few_rows(func: Any, cpu: Cpu, least_work: int) -> Any:
    """Return `func` with long sums of few rows cut into parts.

    Parameters
    ----------
    func
        An unscheduled function.
    cpu
        Whose cores share the parts.
    least_work
        Operations, as :mod:`parallelism` counts them, from which on sharing pays.
    """

    def split(stage: Stage) -> Split | None:
        cut = cut_of(stage, cpu, least_work)
        return None if cut is None else _in_parts(stage, *cut)

    return with_split_stages(func, split)


def parts_in(func: Any) -> set[str]:
    """Return the names of the stages that :func:`share_few_rows` made, which lead their rows."""
    names = {str(block.name_hint) for block in collect_blocks(func)}
    return {name for name in names if name.endswith(PARTS_SUFFIX)}


def cut_of(stage: Stage, cpu: Cpu, least_work: int) -> tuple[Iter, int] | None:
    """Return which accumulated axis of a stage is cut, and into how many parts; None for none.

    The outermost that so many parts divide: what a part reads lies together.
    """
    rows = math.prod(stage.spatial)
    if not cpu.cores > 1 or rows >= cpu.cores or why_not_in_parts(stage) is not None:
        return None
    if operations_of(stage) < least_work:
        return None
    wanted = math.ceil(cpu.cores * TASKS_A_CORE / rows)
    reduced = [it for it in stage.iters if it.is_reduction and it.extent > 1]
    # So many that cores end together; fewer where no axis has them.
    for choices in (range(wanted, 2 * wanted), range(wanted - 1, cpu.cores - 1, -1)):
        for it in reduced:
            # What is left of the innermost axis fills vectors still.
            is_inner = it is reduced[-1]
            most = it.extent // (cpu.lanes * LONG_ROW_GROUPS) if is_inner else it.extent
            for parts in choices:
                if parts <= most and it.extent % parts == 0:
                    return it, parts
    return None


def _in_parts(stage: Stage, cut: Iter, parts: int) -> Split:
    """Return the stages that take the place of `stage`, as statements, and the buffer between."""
    row = Row(stage)
    nest = Nest(row.spatial, row.dtype)
    part = nest.spatial("part", parts)
    length = cut.extent // parts
    for it in row.reduced:
        if it is not cut:
            nest.mapping[it.var] = nest.reduce(it.var.name, it.extent)
        elif length == 1:
            nest.mapping[it.var] = part
        else:
            step = nest.reduce(it.var.name, length)
            nest.mapping[it.var] = part * row.const(length) + step
    shape = [*(row.const(it.extent) for it in row.spatial), row.const(parts)]
    name = f"{stage.name}{PARTS_SUFFIX}"
    buffer = tir.decl_buffer(shape, stage.writes[0].dtype, name)
    partial = row.partial(nest, buffer, [*nest.spatial_vars, part])
    whole = Nest(row.spatial, row.dtype)
    each = whole.reduce("part", parts)
    total = row.total(whole, tir.BufferLoad(buffer, [*whole.spatial_vars, each]))
    return [partial, total], [buffer]
