"""What lies outside lends its memory until it is written: results keep no room of their own.

A model's output is memory that the caller gives, and nothing is in it before the kernel that makes
it runs. Until then it holds tensors that are gone by that time, and the arena is smaller by them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm_fusionx.memory.lifetimes import ALIGNMENT, Tenant, live_bytes
from tvm_fusionx.memory.offsets import best_fit
from tvm_fusionx.memory.program import Program


@dataclass(frozen=True)
class Lender:
    """A buffer that lies outside.

    Attributes
    ----------
    buffer
        Its number.
    bytes
        What it can hold, a multiple of :data:`ALIGNMENT`.
    written
        Position of the call that writes it.
    """

    buffer: int
    bytes: int
    written: int

    def can_hold(self, tenant: Tenant) -> bool:
        """Tell whether a tensor is small enough, and gone when the lender is written.

        Workspaces are not lent: they are where their kernel looks for them, in the arena.
        """
        is_gone = tenant.last < self.written
        return tenant.buffer is not None and is_gone and tenant.bytes <= self.bytes


def lenders_of(program: Program, order: Sequence[int]) -> tuple[Lender, ...]:
    """Return what lies outside and can lend, when the calls run in `order`."""
    found = []
    for position, number in enumerate(order):
        for buffer in program.calls[number].writes:
            what = program.buffers[buffer]
            size = what.bytes // ALIGNMENT * ALIGNMENT
            if what.is_outside and size:
                found.append(Lender(buffer, size, position))
    return tuple(found)


def least_arena(tenants: Sequence[Tenant], lenders: Sequence[Lender], count: int) -> int:
    """Return a number of bytes that no arena is below, whatever is lent."""
    lent = [0] * count
    for lender in lenders:
        for step in range(lender.written):
            lent[step] += lender.bytes
    live = live_bytes(tenants, count)
    return max((size - free for size, free in zip(live, lent, strict=True)), default=0)


def lend(
    tenants: Sequence[Tenant], lenders: Sequence[Lender], count: int
) -> dict[int, tuple[int, int]]:
    """Return for each tenant that is lent memory the lender's number and its place there.

    As long as something can be lent at the moment that needs the most, the largest is.
    """
    lent: dict[int, tuple[int, int]] = {}
    while lenders and count:
        left = [number for number in range(len(tenants)) if number not in lent]
        live = live_bytes([tenants[number] for number in left], count)
        peak = max(range(count), key=live.__getitem__)
        there = [n for n in left if tenants[n].first <= peak <= tenants[n].last]
        found = None
        for number in sorted(there, key=lambda n: -tenants[n].bytes):
            found = _place_at_a_lender(number, tenants, lenders, lent)
            if found is not None:
                lent[number] = found
                break
        if found is None:
            break
    return lent


def _place_at_a_lender(
    number: int,
    tenants: Sequence[Tenant],
    lenders: Sequence[Lender],
    lent: dict[int, tuple[int, int]],
) -> tuple[int, int] | None:
    """Return a free place for a tenant among those that are there already, or None."""
    for lender in sorted(lenders, key=lambda each: each.bytes):
        if not lender.can_hold(tenants[number]):
            continue
        others = [(one, place) for one, (buffer, place) in lent.items() if buffer == lender.buffer]
        lot = [*(tenants[one] for one, _ in others), tenants[number]]
        offset = best_fit(lot, [len(others)], [*(place for _, place in others), -1])[-1]
        if offset + tenants[number].bytes <= lender.bytes:
            return lender.buffer, offset
    return None
