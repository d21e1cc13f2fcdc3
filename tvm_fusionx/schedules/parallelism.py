"""When a loop is worth running on several cores."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.schedules.analysis import Stage

# Waking TVM's thread pool takes about 5 us on the machines measured (two cores, pool spinning); a
# vectorised elementwise kernel moves about 8,000 float32 in that time, so smaller ones stay serial.
MIN_PARALLEL_WORK = 16384

# A transcendental function as a vectorised polynomial costs about this many multiplications.
TRANSCENDENTAL_WORK = 8


def work_of(stage: Stage) -> int:
    """Return the operations of a stage, in units of one elementwise operation on one element."""
    return stage.points * (1 + TRANSCENDENTAL_WORK * stage.transcendentals)


def should_parallelise(stages: Any, cores: int, least_work: int = MIN_PARALLEL_WORK) -> bool:
    """Tell whether the work of `stages` together pays for starting other threads."""
    return cores > 1 and sum(work_of(stage) for stage in stages) >= least_work
