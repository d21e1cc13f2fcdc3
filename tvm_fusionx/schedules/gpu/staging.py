"""Operands of a matrix product that a work-group reads together through its local memory."""

from __future__ import annotations

from typing import Any

import tvm

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.threads import ITEMS
from tvm_fusionx.schedules.parts.nest import iters_of
from tvm_fusionx.tir.block import Stage

LOCAL_MEMORY = "shared"

# Steps of the summation for which operands are staged at a time: two barriers for so many.
DEPTH = 16


def fits(stage: Stage, rows: int, columns: int, gpu: Gpu) -> bool:
    """Tell whether the operands of a group's `rows` x `columns` results fit its local memory."""
    element = tvm.DataType(stage.reads[0].dtype).bits // 8
    return DEPTH * (rows + columns) * element <= gpu.local_bytes


def stage_operands(sch: Any, reduce: Any, at: Any, items_x: int, items_y: int) -> None:
    """Copy both operands of `reduce` to local memory for each step of loop `at`."""
    for operand in range(len(sch.get(reduce).reads)):
        copy = sch.cache_read(reduce, operand, LOCAL_MEMORY)
        sch.compute_at(copy, at, preserve_unit_loops=True)
        loops = sch.get_loops(copy)[-len(iters_of(sch, copy)) :]
        fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
        _, item_y, item_x = sch.split(fused, [None, items_y, items_x])
        sch.bind(item_y, ITEMS[1])
        sch.bind(item_x, ITEMS[0])
