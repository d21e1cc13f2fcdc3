from __future__ import annotations

from hypothesis import given, settings

from tests.memory.programs import programs
from tvm_fusionx.memory.lifetimes import ALIGNMENT, Tenant, live_bytes, tenants_of
from tvm_fusionx.memory.offsets import arena_of, best_fit, place, why_not_apart
from tvm_fusionx.memory.program import Program


def tenant(units: int, first: int, last: int) -> Tenant:
    return Tenant(f"{units}:{first}-{last}", units * ALIGNMENT, first, last, 0)


def test_the_smallest_gap_that_holds_it_is_taken() -> None:
    # Gaps of 4 and of 2 units, by what has gone when the last comes.
    lot = [tenant(4, 0, 0), tenant(1, 0, 1), tenant(2, 0, 0), tenant(1, 0, 1), tenant(2, 1, 1)]
    offsets = best_fit(lot, range(5))
    assert [offset // ALIGNMENT for offset in offsets] == [0, 4, 5, 7, 5]


def test_what_ends_highest_is_tried_first() -> None:
    lot = [tenant(2, 0, 1), tenant(2, 3, 4), tenant(3, 1, 3), tenant(1, 0, 4)]
    bound = max(live_bytes(lot, 5))
    assert arena_of(lot, place(lot, bound)) == bound == 6 * ALIGNMENT


def test_two_in_one_place_are_found() -> None:
    lot = [tenant(2, 0, 1), tenant(2, 1, 2), tenant(2, 2, 3)]
    assert why_not_apart(lot, [0, 64, 0]) == "2:1-2 and 2:0-1"
    assert why_not_apart(lot, [0, 128, 0]) is None
    assert place([], 0) == []


@settings(deadline=None, max_examples=100)
@given(programs())
def test_places_are_apart_and_no_larger_than_all_together(some: Program) -> None:
    lot = tenants_of(some, range(len(some.calls)))
    bound = max(live_bytes(lot, len(some.calls)), default=0)
    offsets = place(lot, bound)
    assert why_not_apart(lot, offsets) is None
    assert bound <= arena_of(lot, offsets) <= sum(each.bytes for each in lot)
