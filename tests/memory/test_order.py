from __future__ import annotations

from hypothesis import given, settings

from tests.memory.programs import BRANCHES, best_by_hand, program, programs
from tvm_fusionx.memory.lifetimes import ALIGNMENT
from tvm_fusionx.memory.order import best_order, peak_of
from tvm_fusionx.memory.program import Program, why_not_in_order


def test_a_branch_ends_before_the_next_begins() -> None:
    found = best_order(BRANCHES)
    assert peak_of(BRANCHES, tuple(range(6))) == 17 * ALIGNMENT
    assert (found.peak_bytes, found.is_best) == (10 * ALIGNMENT, True)
    assert peak_of(BRANCHES, found.calls) == found.peak_bytes


def test_a_chain_stays_as_it_is() -> None:
    chain = program(([], 3), ([0], 5), ([1], 2))
    assert best_order(chain).calls == (0, 1, 2)
    assert best_order(chain).is_best


def test_a_narrow_beam_says_that_it_did_not_see_all() -> None:
    found = best_order(BRANCHES, width=1)
    assert not found.is_best
    assert found.peak_bytes <= 17 * ALIGNMENT
    assert best_order(Program((), ())).calls == ()


@settings(deadline=None, max_examples=40)
@given(programs(most=6))
def test_no_order_of_all_is_better_than_the_one_found(some: Program) -> None:
    found = best_order(some)
    assert why_not_in_order(some, found.calls) is None
    assert found.is_best
    assert found.peak_bytes == peak_of(some, found.calls) == best_by_hand(some)
