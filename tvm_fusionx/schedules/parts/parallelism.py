"""When a loop is worth running on several cores."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.processors.rates import MIN_PARALLEL_WORK, TRANSCENDENTAL_WORK
from tvm_fusionx.tir.block import Stage


def work_of(stage: Stage) -> int:
    """Return the operations of a stage, in units of one elementwise operation on one element."""
    return stage.points * (1 + TRANSCENDENTAL_WORK * stage.transcendentals)


def should_parallelise(stages: Any, cores: int, least_work: int = MIN_PARALLEL_WORK) -> bool:
    """Tell whether the work of `stages` together pays for starting other threads."""
    return cores > 1 and sum(work_of(stage) for stage in stages) >= least_work


# Shares for each core with which none has much more than another.
EVEN_SHARES = 16
