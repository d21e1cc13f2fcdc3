"""When a loop is worth running on several cores."""

from __future__ import annotations

from typing import Any

from tvm_fusionx.tir.block import Stage

# Operations that pay for waking TVM's thread pool, which takes 1 to 3 us on the machines measured
# (two cores, pool spinning). The zoo's blocks with less work are faster on one core, with AVX2 and
# with AVX-512 (Zen 4): masks of 128 x 128 0.7 and 2.3 us, gates of squeeze-and-excitation 1.3 and
# 2.9; from 60,000 on on two.
MIN_PARALLEL_WORK = 49152

# A transcendental function as a vectorised polynomial costs about this many multiplications.
TRANSCENDENTAL_WORK = 8

# Starting a task of a loop that threads share: pointers, loop set-up, the first misses.
TASK_CYCLES = 500

# Shares for each core with which none has much more than another.
EVEN_SHARES = 16


def operations_of(stage: Stage) -> int:
    """Return the operations of a stage, in units of one elementwise operation on one element."""
    return stage.points * (1 + TRANSCENDENTAL_WORK * stage.transcendentals)


def should_parallelise(stages: Any, cores: int, least_work: int = MIN_PARALLEL_WORK) -> bool:
    """Tell whether the work of `stages` together pays for starting other threads."""
    return cores > 1 and sum(operations_of(stage) for stage in stages) >= least_work
