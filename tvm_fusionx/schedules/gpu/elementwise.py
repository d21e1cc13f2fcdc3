"""Blocks without a reduction: element by element, broadcast, and data movement."""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.default import ITEMS_KNOB, items_knob
from tvm_fusionx.schedules.gpu.isolate import has_guard
from tvm_fusionx.schedules.gpu.threads import bind_flat, points_of, work_items
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Template
from tvm_fusionx.tir.block import BlockInfo, Stage
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.inline import inline_spatial

VECTOR_KNOB = "vector"
VECTORS = (1, 2, 4)


def widest_vector(stage: Stage, gpu: Gpu) -> int:
    """Return the lanes that a stage's last axis divides into, 1 where the body has conditions."""
    spatial = stage.spatial
    body = stage.block.body
    if not spatial or has_guard(body) or not isinstance(body, tir.BufferStore):
        return 1
    return max(lanes for lanes in VECTORS if lanes <= gpu.lanes and spatial[-1] % lanes == 0)


class Elementwise(Match):
    """A block without a reduction."""

    def knobs(self) -> Knobs:
        """Return the work-items of a group, and the lanes of a vector."""
        info, gpu = self.info, self.info.gpu
        widest = min((widest_vector(info.stages[name], gpu) for name in info.outputs), default=1)
        choices = tuple(lanes for lanes in VECTORS if lanes <= widest)
        return {ITEMS_KNOB: items_knob(gpu), VECTOR_KNOB: Knob(choices[-1], choices)}

    def emit(self, values: KnobValues) -> Any:
        """Return the kernels."""
        sch = fresh_schedule(self.info.func)
        # Memory, not arithmetic, bounds such a kernel.
        info = inline_spatial(sch, self.info, keep_operands=False, recompute=True)
        gpu = info.gpu
        for name, stage in info.stages.items():
            block = sch.get_block(name)
            loops = sch.get_loops(block) or [sch.add_unit_loop(block)]
            lanes = min(values[VECTOR_KNOB], widest_vector(stage, gpu))
            if lanes > 1:
                loops[-1], inner = sch.split(loops[-1], [None, lanes])
                sch.vectorize(inner)
            bind_flat(sch, loops, work_items(gpu, points_of(sch, loops), values[ITEMS_KNOB]))
        return sch.mod["main"]


def _match(info: BlockInfo) -> Elementwise | str:
    return "it has a reduction" if info.reductions else Elementwise(info)


GPU_ELEMENTWISE = Template("gpu_elementwise", _match)
