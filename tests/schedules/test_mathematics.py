"""Polynomials in place of libm: within the stated error, special values right."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import as_block
from tests.schedules.float_functions import FUNCTIONS, arguments, assert_accurate
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target


def _evaluate(body: relay.Expr, x: np.ndarray) -> np.ndarray:
    target = resolve_target(TARGET)
    with lowering(target):
        library = relay.build(as_block(body), target)
    (found,) = run_once(library, {"x": x})
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_units_in_the_last_place(name: str) -> None:
    function, _, _ = FUNCTIONS[name]
    x = arguments()
    assert_accurate(name, x, _evaluate(function(var("x", len(x))), x))


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


def test_no_libm_call_is_left() -> None:
    target = resolve_target(TARGET)
    x = var("x", 64)
    body = relay.exp(relay.tanh(relay.erf(relay.sigmoid(x))))
    with lowering(target):
        library = relay.build(as_block(body), target)
    text = library.get_lib().get_source("ll")
    assert not [name for name in ("@expf", "@tanhf", "@erff", "llvm.exp") if name in text]


def test_a_guarded_argument_is_not_read_early() -> None:
    x = np.linspace(-1, 1, 24, dtype="float32").reshape(1, 1, 4, 6)
    data = var("x", 1, 1, 4, 6)
    body = relay.nn.pad(relay.exp(data), ((0, 0), (0, 0), (1, 1), (1, 1)))
    expected = np.pad(np.exp(x), ((0, 0), (0, 0), (1, 1), (1, 1)))
    np.testing.assert_allclose(_evaluate(body, x), expected, rtol=1e-6)
