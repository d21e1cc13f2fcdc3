"""The smallest arena that a solver finds, for programs of few tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_fusionx.memory.integer_program import IntegerProgram
from tvm_fusionx.memory.lifetimes import ALIGNMENT, Tenant
from tvm_fusionx.memory.offsets import arena_of

# Two that meet are a yes-or-no question each; HiGHS answers some hundreds in seconds.
MOST_PAIRS = 400
TIME_LIMIT_SECONDS = 10.0


def can_solve(tenants: Sequence[Tenant]) -> bool:
    """Tell whether few enough tenants meet for the solver to be asked."""
    return 0 < len(_pairs(tenants)) <= MOST_PAIRS


def solve(
    tenants: Sequence[Tenant], known: Sequence[int], bound: int, time_limit_seconds: float
) -> tuple[list[int], int] | None:
    """Return offsets of a smaller arena than `known` has, and a proven lower bound.

    None where no solver is installed (scipy), or it finds nothing in time.
    """
    units = [tenant.bytes // ALIGNMENT for tenant in tenants]
    largest = arena_of(tenants, known) // ALIGNMENT
    pairs = _pairs(tenants)
    count = len(tenants)
    # Variables: an offset for each, the arena, and for each pair whether the first lies below.
    program = IntegerProgram()
    for number, size in enumerate(units):
        program.at_most([(number, 1), (count, -1)], -size)
    for place, (one, two) in enumerate(pairs):
        below = count + 1 + place
        program.at_most([(one, 1), (two, -1), (below, largest)], largest - units[one])
        program.at_most([(two, 1), (one, -1), (below, -largest)], -units[two])
    total = count + 1 + len(pairs)
    lower = np.zeros(total)
    lower[count] = bound // ALIGNMENT
    upper = np.array([*([largest] * (count + 1)), *([1] * len(pairs))], dtype=float)
    answer = program.least(count, np.ones(total), lower, upper, time_limit_seconds)
    if answer is None:
        return None
    offsets = [round(value) * ALIGNMENT for value in answer.x[:count]]
    proven = answer.mip_dual_bound
    # The bound is a whole number of units: what lies between two is the upper one.
    proven_bytes = int(np.ceil(proven - 1e-6)) * ALIGNMENT if proven is not None else bound
    return offsets, max(bound, proven_bytes)


def _pairs(tenants: Sequence[Tenant]) -> list[tuple[int, int]]:
    return [
        (one, two)
        for two in range(len(tenants))
        for one in range(two)
        if tenants[one].meets(tenants[two])
    ]
