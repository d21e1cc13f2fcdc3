"""Whole registers of halves are bounded behind their rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.late_passes.halves_in_pairs import instructions, lowered, run
from tvm_fusionx.late_passes.bound_halves import bound_halves
from tvm_fusionx.late_passes.let_nans_through import let_nans_through

LANES, SIZE = 8, 32
PASS = bound_halves(LANES)
NANS = let_nans_through(extremes_keep_nan=False)


def _bounded(source: str, low: float, high: float) -> Any:
    """Return a function that stores what lies between two numbers as halves."""
    x, y = tir.decl_buffer((SIZE,), source, "x"), tir.decl_buffer((SIZE,), "float16", "y")
    ib = tir.ir_builder.create()
    with ib.for_range(0, SIZE // LANES, "at") as at:
        place = [tir.Ramp(at * LANES, 1, LANES)]
        value = tir.BufferLoad(x, place)
        if source == "float16":
            value = tir.Cast(f"float32x{LANES}", value)
        for extreme, bound in ((tir.Max, low), (tir.Min, high)):
            value = extreme(value, tir.Broadcast(tir.const(bound, "float32"), LANES))
        ib.emit(tir.BufferStore(y, tir.Cast(f"float16x{LANES}", value), place))
    return tir.PrimFunc([x, y], ib.get())


@pytest.mark.parametrize("source", ["float16", "float32"])
@pytest.mark.parametrize(("low", "high"), [(0, 6), (-65504, 65504), (0.1, 6), (0, 1e6)])
def test_the_numbers_stay(source: str, low: float, high: float) -> None:
    x = (np.random.default_rng(0).standard_normal(SIZE) * 8).astype(source)
    x[:6] = 60000, -60000, np.inf, -np.inf, np.nan, 1e-7
    func = _bounded(source, low, high)
    found, expected = run(func, x, "float16", PASS, NANS), run(func, x, "float16", NANS)
    np.testing.assert_array_equal(found, expected)


def test_halves_are_neither_widened_nor_rounded() -> None:
    func = _bounded("float16", 0, 6)
    by_instruction = let_nans_through(extremes_keep_nan=True, compares_halves=True)
    found, plain = (instructions(func, *each, by_instruction) for each in ((PASS,), ()))
    assert not {"fcvtl", "fcvtn"} & set(found)
    assert found["fmax"] == plain["fmax"] // 2
    assert {"fcvtl", "fcvtn"} <= set(plain)


def test_bounds_that_are_no_halves_stay_before_the_rounding() -> None:
    func = _bounded("float32", 0.1, 0.7)
    tvm.ir.assert_structural_equal(lowered(func, PASS), lowered(func))
