"""The template of last resort: serves every block, never fails."""

from __future__ import annotations

import contextlib
import logging
from typing import Any

import tvm

from tvm_fusionx.schedules.analysis import BlockInfo, Stage
from tvm_fusionx.schedules.cpu import Cpu
from tvm_fusionx.schedules.inline import inline_spatial
from tvm_fusionx.schedules.parallelism import should_parallelise
from tvm_fusionx.schedules.template import Knobs, KnobValues, Template

logger = logging.getLogger(__name__)


def _why_not(info: BlockInfo) -> str | None:
    return None


def _knobs(info: BlockInfo, cpu: Cpu) -> Knobs:
    return {}


def _apply(sch: Any, info: BlockInfo, values: KnobValues) -> None:
    info = inline_spatial(sch, info)
    for name, stage in info.stages.items():
        with contextlib.suppress(tvm.TVMError):
            schedule_alone(sch, name, stage, info.cpu)


def schedule_alone(sch: Any, name: str, stage: Stage, cpu: Cpu) -> None:
    """Give one stage its own parallel loop nest, vectorised along its last spatial axis."""
    loops = sch.get_loops(sch.get_block(name))
    spatial = [loop for loop, it in zip(loops, stage.iters, strict=True) if not it.is_reduction]
    reduced = [loop for loop, it in zip(loops, stage.iters, strict=True) if it.is_reduction]
    parallel = should_parallelise([stage], cpu.cores)
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


DEFAULT = Template("default", _why_not, _knobs, _apply)
