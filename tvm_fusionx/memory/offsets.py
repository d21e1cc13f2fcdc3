"""Places in one arena: best fit, the largest first, and a repair of what came out on top."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tvm_fusionx.memory.lifetimes import Tenant

# Pairs that are compared in repairs of one order: a second or so in Python.
MOST_COMPARISONS = 500_000

Key = Callable[[Tenant], tuple[int, ...]]


def _by_size(tenant: Tenant) -> tuple[int, ...]:
    return (-tenant.bytes, tenant.first - tenant.last, tenant.first)


def _by_area(tenant: Tenant) -> tuple[int, ...]:
    return (-tenant.bytes * (tenant.last - tenant.first + 1), tenant.first)


def _by_duration(tenant: Tenant) -> tuple[int, ...]:
    return (tenant.first - tenant.last, -tenant.bytes, tenant.first)


def _by_start(tenant: Tenant) -> tuple[int, ...]:
    return (tenant.first, -tenant.bytes)


KEYS: tuple[Key, ...] = (_by_size, _by_area, _by_duration, _by_start)


def best_fit(
    tenants: Sequence[Tenant], order: Sequence[int], known: Sequence[int] = ()
) -> list[int]:
    """Return an offset for each tenant: in `order`, each into the smallest gap that holds it.

    Those that are not in `order` keep their `known` offset.
    """
    offsets = list(known) or [-1] * len(tenants)
    placed = [number for number, offset in enumerate(offsets) if offset >= 0]
    for number in order:
        tenant = tenants[number]
        taken = sorted(
            (offsets[other], offsets[other] + tenants[other].bytes)
            for other in placed
            if tenant.meets(tenants[other])
        )
        best, best_gap, end = -1, -1, 0
        for begin, stop in taken:
            gap = begin - end
            if gap >= tenant.bytes and (best < 0 or gap < best_gap):
                best, best_gap = end, gap
            end = max(end, stop)
        offsets[number] = best if best >= 0 else end
        placed.append(number)
    return offsets


def arena_of(tenants: Sequence[Tenant], offsets: Sequence[int]) -> int:
    """Return the bytes that an arena with these places has."""
    ends = (offset + tenant.bytes for tenant, offset in zip(tenants, offsets, strict=True))
    return max(ends, default=0)


def place(tenants: Sequence[Tenant], bound: int) -> list[int]:
    """Return offsets by the best of some orders; none is tried after one that meets `bound`."""
    best: list[int] = []
    repairs = 1 + MOST_COMPARISONS // max(1, len(tenants) ** 2)
    for key in KEYS:
        order = sorted(range(len(tenants)), key=lambda number: key(tenants[number]))
        for _ in range(min(repairs, len(tenants))):
            offsets = best_fit(tenants, order)
            if not best or arena_of(tenants, offsets) < arena_of(tenants, best):
                best = offsets
            if arena_of(tenants, best) <= bound:
                return best
            # What ends highest did not find room below: it goes first, where all is free.
            top = max(range(len(tenants)), key=lambda n: offsets[n] + tenants[n].bytes)
            if order[0] == top:
                break
            order = [top, *(number for number in order if number != top)]
    return best


def why_not_apart(
    tenants: Sequence[Tenant],
    offsets: Sequence[int],
    is_heir: Callable[[Tenant, Tenant], bool] = lambda one, two: False,
) -> str | None:
    """Return which two tenants lie in each other's place at one moment, or None.

    Parameters
    ----------
    is_heir
        Tells whether the second may begin where the first does, though both are needed then.
    """
    rows = list(zip(tenants, offsets, strict=True))
    for number, (tenant, offset) in enumerate(rows):
        for other, there in rows[:number]:
            is_apart = offset + tenant.bytes <= there or there + other.bytes <= offset
            if is_apart or not tenant.meets(other):
                continue
            if offset != there or not (is_heir(tenant, other) or is_heir(other, tenant)):
                return f"{tenant.name} and {other.name}"
    return None
