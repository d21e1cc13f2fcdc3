"""The template of last resort: serves every block, and refuses only knobs of its own."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import tvm

from tvm_fusionx.schedules.analysis import BlockInfo, Stage
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.inline import inline_spatial
from tvm_fusionx.schedules.parallelism import MIN_PARALLEL_WORK, should_parallelise
from tvm_fusionx.schedules.row_knobs import RECOMPUTE_KNOB, chosen, knobs_of_elements
from tvm_fusionx.schedules.template import KnobValues, Template

logger = logging.getLogger(__name__)


def _why_not(info: BlockInfo) -> str | None:
    return None


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> None:
    info, choices = chosen(info, values)
    info = inline_spatial(sch, info, recompute=bool(values.get(RECOMPUTE_KNOB)))
    for name, stage in info.stages.items():
        with contextlib.suppress(tvm.TVMError):
            schedule_alone(sch, name, stage, info.cpu, choices.parallel_work)


def schedule_alone(
    sch: Any, name: str, stage: Stage, cpu: Cpu, parallel_work: int = MIN_PARALLEL_WORK
) -> None:
    """Give one stage its own parallel loop nest, vectorised along its last spatial axis."""
    loops = sch.get_loops(sch.get_block(name))
    spatial = [loop for loop, it in zip(loops, stage.iters, strict=True) if not it.is_reduction]
    reduced = [loop for loop, it in zip(loops, stage.iters, strict=True) if it.is_reduction]
    parallel = should_parallelise([stage], cpu.cores, parallel_work)
    if not spatial:
        return
    if not reduced:
        fused = sch.fuse(*spatial)
        if stage.points % cpu.lanes == 0:
            outer, inner = sch.split(fused, [None, cpu.lanes])
            sch.vectorize(inner)
        else:
            outer = fused
        if parallel:
            sch.parallel(outer)
        return
    sch.reorder(*spatial, *reduced)
    if parallel:
        sch.parallel(sch.fuse(*spatial))


DEFAULT = Template("default", _why_not, knobs_of_elements, _apply)
