"""Marks are found and taken away; a function says which of its parameters are halves."""

from __future__ import annotations

import pytest
import tvm

from tests.schedules.blocked_blocks import dense, unscheduled
from tests.schedules.half_blocks import in_16_bits
from tests.schedules.sums_in_halves import HALF, summed_in_halves
from tvm_fusionx.tir.half_terms import (
    HALF_TERMS,
    Mark,
    adds_in_halves,
    half_terms,
    longest_chain,
    told,
    without_marks,
)
from tvm_fusionx.tir.stored_types import as_single

BODY = dense(16, (5, 7), 24, (1, 1))


@pytest.mark.parametrize("mark", [Mark(16), Mark(8, adds=True)])
def test_a_mark_is_taken_away_and_told(mark: Mark) -> None:
    func, found = without_marks(unscheduled(summed_in_halves(BODY, mark)))
    assert found == mark
    assert HALF_TERMS not in func.script()
    tvm.ir.assert_structural_equal(func, unscheduled(in_16_bits(BODY, HALF)))


def test_a_block_without_marks_stays() -> None:
    plain = unscheduled(in_16_bits(BODY, HALF))
    func, found = without_marks(plain)
    assert func.same_as(plain)
    assert not found.terms


def test_only_products_of_halves_are_summed_up_in_halves() -> None:
    single = as_single(unscheduled(in_16_bits(BODY, HALF)))
    assert single is not None
    x, w, bias, _ = (single.func.buffer_map[param] for param in single.func.params)
    assert half_terms(single.func, x, w) == 0
    assert not adds_in_halves(single.func)
    # The bias lies as float32, as small constants do.
    stored = {number: dtype for number, dtype in single.stored.items() if number != 2}
    func = told(single.func, Mark(16, adds=True), stored)
    assert half_terms(func, x, w) == 16
    assert half_terms(func, x, bias) == 0
    assert adds_in_halves(func)


@pytest.mark.parametrize(
    ("terms", "most", "chain"), [(384, 32, 32), (24, 32, 24), (40, 32, 20), (37, 32, 1), (8, 0, 0)]
)
def test_chains_are_all_as_long(terms: int, most: int, chain: int) -> None:
    assert longest_chain(terms, most) == chain
