"""The GPU template of last resort: every stage a kernel of its own, one work-item a result."""

from __future__ import annotations

import contextlib
from typing import Any

import tvm

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.threads import DEFAULT_ITEMS, bind_shares, points_of, work_items
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.block import Stage
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.inline import inline_spatial

ITEMS_KNOB = "items"
ITEM_CHOICES = (32, 64, 128, 256)


def items_knob(gpu: Gpu) -> Knob:
    """Return the knob for the work-items of a group."""
    choices = tuple(items for items in ITEM_CHOICES if items <= gpu.items) or (gpu.items,)
    return Knob(min(DEFAULT_ITEMS, choices[-1]), choices)


class StagesAlone(Match):
    """Any block: each stage is a kernel of its own."""

    def knobs(self) -> Knobs:
        """Return the work-items of a group."""
        return {ITEMS_KNOB: items_knob(self.info.gpu)}

    def emit(self, values: KnobValues) -> Any:
        """Return the kernels."""
        sch = fresh_schedule(self.info.func)
        info = inline_spatial(sch, self.info, keep_operands=False)
        for name, stage in info.stages.items():
            schedule_alone(sch, name, stage, info.gpu, values[ITEMS_KNOB])
        return sch.mod["main"]


def schedule_alone(sch: Any, name: str, stage: Stage, gpu: Gpu, items: int) -> None:
    """Give one stage a kernel of its own: a work-item for each result, which it accumulates."""
    block = sch.get_block(name)
    loops = sch.get_loops(block)
    spatial = [loop for loop, it in zip(loops, stage.iters, strict=True) if not it.is_reduction]
    reduced = [loop for loop, it in zip(loops, stage.iters, strict=True) if it.is_reduction]
    if not spatial:
        spatial = [sch.add_unit_loop(loops[0] if loops else block)]
    sch.reorder(*spatial, *reduced)
    bind_shares(sch, spatial, work_items(gpu, points_of(sch, spatial), items))
    if reduced:
        # Results of several tensors, as of argmax, are started inside of the loop.
        with contextlib.suppress(tvm.TVMError):
            sch.decompose_reduction(block, reduced[0])


GPU_DEFAULT = Template("gpu_default", StagesAlone)
