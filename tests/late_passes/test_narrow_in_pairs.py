"""Two neighbouring vectors are rounded into one register of halves, and bounded there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.late_passes.halves_in_pairs import (
    LANES,
    doubled,
    instructions,
    lanes_stored,
    lines,
    lowered,
    run,
)
from tvm_fusionx.late_passes.let_nans_through import let_nans_through
from tvm_fusionx.late_passes.narrow_in_pairs import narrow_in_pairs

PASS = narrow_in_pairs(LANES, compares_halves=True)
IN_SINGLE = narrow_in_pairs(LANES, compares_halves=False)


def _bound(number: float) -> Any:
    return tir.Broadcast(tir.const(number, "float32"), LANES)


def _relu6(x: Any, at: Any) -> Any:
    return tir.Min(tir.Max(doubled(x, at), _bound(0)), _bound(6))


def _no_half(x: Any, at: Any) -> Any:
    return tir.Min(tir.Max(doubled(x, at), _bound(0)), _bound(0.1))


@pytest.mark.parametrize("value", [doubled, _relu6, _no_half])
@pytest.mark.parametrize("each", [PASS, IN_SINGLE], ids=["halves", "single"])
@pytest.mark.parametrize(
    ("starts", "lanes"), [([0, 4], [8]), ([4, 0, 8], [8, 4]), ([0, 4, 20, 24], [8, 8])]
)
def test_neighbours_are_one_store_and_the_numbers_stay(
    value: Any, each: Any, starts: list[int], lanes: list[int]
) -> None:
    func = lines(starts, value, "float32", "float16")
    assert lanes_stored(lowered(func, each)) == lanes
    x = (np.random.default_rng(0).standard_normal(3 * 64) * 4).astype("float32")
    # Beyond the largest half, and what becomes no half but zero.
    x[:6] = 1e6, -1e6, np.inf, -np.inf, 1e-9, -1e-9
    nans = let_nans_through(extremes_keep_nan=False)
    found, expected = run(func, x, "float16", each, nans), run(func, x, "float16", nans)
    np.testing.assert_array_equal(found, expected)


def test_a_nan_stays_one() -> None:
    x = np.full(3 * 64, np.nan, "float32")
    nans = let_nans_through(extremes_keep_nan=False)
    found = run(lines([0, 4], _relu6, "float32", "float16"), x, "float16", PASS, nans)
    assert np.isnan(found.reshape(3, 64)[:, :8]).all()


def test_bounds_are_taken_eight_at_once() -> None:
    func = lines([0, 4], _relu6, "float32", "float16")
    nans = let_nans_through(extremes_keep_nan=True, compares_halves=True)
    before, after = instructions(func, nans), instructions(func, PASS, nans)
    for each in ("fmax", "fmin", "fcvtn"):
        assert before[each] == 2 * after[each] > 0, (before, after)
    assert after["fcvtn2"] == after["fcvtn"], after


def test_a_line_that_reads_what_it_stores_stays() -> None:
    y = tir.decl_buffer((64,), "float16", "y")
    ib = tir.ir_builder.create()
    for start in (0, 4):
        more = tir.BufferLoad(y, [tir.Ramp(start, 1, LANES)])
        wide = tir.Cast("float32x4", more) + _bound(1)
        ib.emit(tir.BufferStore(y, tir.Cast("float16x4", wide), [tir.Ramp(start, 1, LANES)]))
    func = tir.PrimFunc([y], ib.get())
    assert tvm.ir.structural_equal(lowered(func, PASS), lowered(func))


def test_what_is_stored_twice_stays() -> None:
    func = lines([0, 4, 0], doubled, "float32", "float16")
    assert tvm.ir.structural_equal(lowered(func, PASS), lowered(func))
