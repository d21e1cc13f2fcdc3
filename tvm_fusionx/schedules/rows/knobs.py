"""Knobs of blocks without a dot product: how wide vectors are, what is recomputed, who shares.

Rows a task are no knob: TVM's pool deals each thread one run of neighbouring rows, whatever their
number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tvm_fusionx.schedules.parts.nest import NARROWEST_VECTOR
from tvm_fusionx.schedules.parts.parallelism import MIN_PARALLEL_WORK
from tvm_fusionx.schedules.template import Knob, Knobs, UnschedulableError
from tvm_fusionx.tir.block import BlockInfo

LANES_KNOB = "lanes"
"""float32 elements of a vector: fewer than the processor's, or several of its vectors at once.

Sums of 2 or 4 vectors at once are as many chains of additions, which hide each other's latency.
"""

VECTORS_KNOB = "vectors"
"""Vectors side by side where neighbours in memory are rows of their own."""

CHAINS_KNOB = "chains"
"""Rows at most that are summed side by side where a row's sums are one vector."""

RECOMPUTE_KNOB = "recompute"
"""1: exponentials and their like are computed for each reader; 0: once, and kept for the row.

These are the two codes that LP-Fusion chooses from (W. Niu et al., "Real-time execution of
large-scale language models on mobile", 2021): more arithmetic, or more memory.
"""

PARALLEL_WORK_KNOB = "parallel_work"
"""Least work of a loop nest that is shared by the cores, as :mod:`parallelism` counts it."""

# Of the processor's own vectors; four at once hide the latency of an addition on today's CPUs.
LANE_FACTORS = (0.5, 1, 2, 4)

# Vectors side by side when the contiguous axis is a row axis: hides the latency of accumulation.
VECTORS_ACROSS_ROWS = 2
VECTOR_CHOICES = (1, 2, 4)

ROWS_TOGETHER = 8
CHAIN_CHOICES = (1, 2, 4, 8, 16)

# Every nest is shared, the usual ones, none.
EVERY_NEST = 1
NO_NEST = 1 << 30
PARALLEL_WORKS = (EVERY_NEST, MIN_PARALLEL_WORK, NO_NEST)


@dataclass(frozen=True)
class RowChoices:
    """What a template leaves open of its rows, besides the processor's lanes."""

    vectors: int = VECTORS_ACROSS_ROWS
    """See `VECTORS_KNOB`."""

    parallel_work: int = MIN_PARALLEL_WORK
    """See `PARALLEL_WORK_KNOB`."""

    chains: int = ROWS_TOGETHER
    """See `CHAINS_KNOB`."""


USUAL = RowChoices()


def knobs_of_elements(info: BlockInfo) -> Knobs:
    """Return the knobs of any block; each is there only where it can make a difference."""
    cpu = info.cpu
    lanes = {int(cpu.lanes * factor) for factor in LANE_FACTORS}
    widths = tuple(sorted(each for each in lanes if each >= min(NARROWEST_VECTOR, cpu.lanes)))
    found = {LANES_KNOB: Knob(cpu.lanes, widths)}
    if any(
        stage.expensive and not stage.is_reduction and info.consumers[name]
        for name, stage in info.stages.items()
    ):
        found[RECOMPUTE_KNOB] = Knob(0, (0, 1))
    if cpu.cores > 1:
        found[PARALLEL_WORK_KNOB] = Knob(MIN_PARALLEL_WORK, PARALLEL_WORKS)
    return found


def knobs_of_rows(info: BlockInfo) -> Knobs:
    """Return the knobs of a block whose rows may be reduced."""
    found = knobs_of_elements(info)
    if info.reductions:
        found[VECTORS_KNOB] = Knob(VECTORS_ACROSS_ROWS, VECTOR_CHOICES)
        found[CHAINS_KNOB] = Knob(ROWS_TOGETHER, CHAIN_CHOICES)
    return found


def chosen(info: BlockInfo, values: Mapping[str, int]) -> tuple[BlockInfo, RowChoices]:
    """Return the block with vectors of the chosen width, and the other choices.

    Raises
    ------
    UnschedulableError
        A value is none that a loop can have.
    """
    for name in (LANES_KNOB, VECTORS_KNOB, CHAINS_KNOB, PARALLEL_WORK_KNOB):
        value = values.get(name, 1)
        if value < 1 or (name != PARALLEL_WORK_KNOB and value & (value - 1)):
            raise UnschedulableError(f"{name}: expected a power of two; found {value}")
    choices = RowChoices(
        values.get(VECTORS_KNOB, VECTORS_ACROSS_ROWS),
        values.get(PARALLEL_WORK_KNOB, MIN_PARALLEL_WORK),
        values.get(CHAINS_KNOB, ROWS_TOGETHER),
    )
    cpu = replace(info.cpu, lanes=values.get(LANES_KNOB, info.cpu.lanes))
    return replace(info, processor=cpu), choices
