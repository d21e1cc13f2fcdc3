"""When a loop is worth running on several cores."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.schedules.analysis import Stage

# Waking TVM's thread pool takes 1 to 3 us on the machines measured (two cores, pool spinning). The
# zoo's blocks with less work are faster on one core, with AVX2 and with AVX-512 (Zen 4): masks of
# 128 x 128 0.7 and 2.3 us, gates of squeeze-and-excitation 1.3 and 2.9; from 60,000 on on two.
MIN_PARALLEL_WORK = 49152

# A transcendental function as a vectorised polynomial costs about this many multiplications.
TRANSCENDENTAL_WORK = 8


def work_of(stage: Stage) -> int:
    """Return the operations of a stage, in units of one elementwise operation on one element."""
    return stage.points * (1 + TRANSCENDENTAL_WORK * stage.transcendentals)


def should_parallelise(stages: Any, cores: int, least_work: int = MIN_PARALLEL_WORK) -> bool:
    """Tell whether the work of `stages` together pays for starting other threads."""
    return cores > 1 and sum(work_of(stage) for stage in stages) >= least_work
