"""Which tensors lie in memory of outputs, chosen by a solver so that the arena is smallest.

What is asked is who is lent to whom, so that at no moment a lender holds more than it has, and the
most that is left for the arena is least. Places are found afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_fusionx.memory.integer_program import IntegerProgram
from tvm_fusionx.memory.lending import Lender
from tvm_fusionx.memory.lifetimes import ALIGNMENT, Tenant
from tvm_fusionx.memory.offsets import arena_of, place

Loans = dict[int, tuple[int, int]]
"""For each tenant that is lent memory, by its number: the lender's buffer, and the place there."""


def solve_lending(
    tenants: Sequence[Tenant],
    lenders: Sequence[Lender],
    count: int,
    time_limit_seconds: float,
) -> Loans:
    """Return what is lent; nothing where no solver is installed (scipy) or none ends in time."""
    choices = [
        (number, lender)
        for number, tenant in enumerate(tenants)
        for lender in lenders
        if lender.can_hold(tenant)
    ]
    if not choices:
        return {}
    # Variables: whether each choice is made, and behind them the arena, in units of alignment.
    program = IntegerProgram()
    for number in {number for number, _ in choices}:
        program.at_most([(at, 1) for at, (who, _) in enumerate(choices) if who == number], 1)
    for step in range(count):
        there = {n for n, tenant in enumerate(tenants) if tenant.first <= step <= tenant.last}
        units = {at: tenants[n].bytes / ALIGNMENT for at, (n, _) in enumerate(choices)}
        here = [at for at, (number, _) in enumerate(choices) if number in there]
        for lender in lenders:
            held = [(at, units[at]) for at in here if choices[at][1] == lender]
            program.at_most(held, lender.bytes / ALIGNMENT)
        needed = sum(tenants[number].bytes for number in there) / ALIGNMENT
        program.at_most([*((at, -units[at]) for at in here), (len(choices), -1)], -needed)
    whole = np.array([*([1] * len(choices)), 0])
    upper = np.array([*([1.0] * len(choices)), np.inf])
    answer = program.least(len(choices), whole, np.zeros(len(whole)), upper, time_limit_seconds)
    if answer is None:
        return {}
    chosen = [choices[at] for at in np.flatnonzero(answer.x[:-1] > 0.5)]
    loans: Loans = {}
    for lender in lenders:
        loans |= _placed([number for number, who in chosen if who == lender], tenants, lender)
    return loans


def _placed(numbers: list[int], tenants: Sequence[Tenant], lender: Lender) -> Loans:
    """Return places at a lender; what ends above its memory is not lent after all."""
    while numbers:
        lot = [tenants[number] for number in numbers]
        offsets = place(lot, lender.bytes)
        if arena_of(lot, offsets) <= lender.bytes:
            return {
                number: (lender.buffer, offset)
                for number, offset in zip(numbers, offsets, strict=True)
            }
        top = max(range(len(lot)), key=lambda at: offsets[at] + lot[at].bytes)
        numbers = [number for at, number in enumerate(numbers) if at != top]
    return {}
