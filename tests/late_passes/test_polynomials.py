"""Polynomials in place of libm: within the stated error, special values right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import as_block
from tests.schedules.float_functions import FUNCTIONS, arguments, assert_accurate
from tvm_fusionx.late_passes.flush_denormals import FLUSH, KEEP, Denormals
from tvm_fusionx.late_passes.polynomials import (
    SIGMOID_HIGHEST,
    SIGMOID_LOWEST,
    Hold,
    sigmoid_of_normals,
    weight_of_score,
)
from tvm_fusionx.late_passes.vectorise_mathematics import StraightLine
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target


def _evaluate(body: relay.Expr, x: np.ndarray, denormals: Denormals) -> np.ndarray:
    target = resolve_target(TARGET)
    with lowering(target, denormals=denormals):
        library = relay.build(as_block(body), target)
    (found,) = run_once(library, {"x": x})
    return found


@pytest.mark.parametrize("denormals", [FLUSH, KEEP])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_units_in_the_last_place(name: str, denormals: Denormals) -> None:
    function, _, _ = FUNCTIONS[name]
    x = arguments()
    found = _evaluate(function(var("x", len(x))), x, denormals)
    assert_accurate(name, x, found, is_flushed=denormals == FLUSH)


@pytest.mark.parametrize("power", [2.0, 3.0, 4.0])
def test_small_powers_are_products(power: float) -> None:
    x = np.linspace(-3, 3, 101, dtype="float32")
    body = relay.power(var("x", len(x)), relay.const(power))
    target = resolve_target(TARGET)
    with lowering(target):
        library = relay.build(as_block(body), target)
    np.testing.assert_allclose(
        run_once(library, {"x": x})[0], x.astype("float64") ** power, rtol=1e-6
    )
    assert "powf" not in library.get_lib().get_source("ll")


def values(function: Callable[[Any, Hold], Any], numbers: np.ndarray) -> np.ndarray:
    """Return what a polynomial makes of numbers, in a kernel that keeps denormals."""
    x, y = (tir.decl_buffer(numbers.shape, name=name) for name in "xy")
    at, line = tir.Var("at", "int32"), StraightLine()
    value = function(tir.BufferLoad(x, [at]), line.hold)
    body = line.around(line.ending(tir.BufferStore(y, value, [at])))
    loop = tir.For(at, 0, len(numbers), tir.ForKind.SERIAL, body)
    places = [tir.Var(name, "handle") for name in "xy"]
    func = tir.PrimFunc(places, loop, buffer_map=dict(zip(places, (x, y), strict=True)))
    found = tvm.nd.empty(numbers.shape)
    tvm.build(func, TARGET)(tvm.nd.array(numbers), found)
    return np.asarray(found.numpy())


def test_the_shorter_sigmoid_is_as_exact_but_for_denormals() -> None:
    x = arguments()
    found = values(sigmoid_of_normals, x)
    assert_accurate("sigmoid", x, found, is_flushed=True)
    assert set(found[x <= SIGMOID_LOWEST]) == {np.float32(0)}
    assert set(found[x >= SIGMOID_HIGHEST]) == {np.float32(1)}


def test_weights_of_scores_are_as_exact_as_they_say() -> None:
    below = np.append(np.linspace(-87.3, 0, 1 << 16), [-88.1, -1e9, -np.inf, np.nan])
    below = below.astype("float32")
    *weights, lowest, low, nothing, no_number = values(weight_of_score, below)
    assert lowest == low == nothing == 0
    assert np.isnan(no_number)
    exact = np.exp(below[:-4].astype("float64"))
    assert (np.abs(weights / exact - 1) <= 2.5e-7 - 8e-8 * below[:-4]).all()
