"""Polynomials in place of libm: within the stated error, special values right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import as_block
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target

special = pytest.importorskip("scipy.special")

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 88.7, 88.73, -87.3, -103.9, -104.5)
FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "exp": (relay.exp, np.exp, 1),
    "log": (relay.log, np.log, 1),
    "erf": (relay.erf, special.erf, 1),
    "sigmoid": (relay.sigmoid, special.expit, 3),
    "tanh": (relay.tanh, np.tanh, 4),
    "sqrt": (relay.sqrt, np.sqrt, 1),
    "rsqrt": (relay.rsqrt, lambda x: 1 / np.sqrt(x), 2),
    "sin": (relay.sin, np.sin, 1),
    "cos": (relay.cos, np.cos, 1),
    "pow": (lambda x: relay.power(x, relay.const(2.5)), lambda x: x**2.5, 1),
}


def _arguments() -> np.ndarray:
    """Return every 70,000th float32, dense samples where the functions bend, special values."""
    bits = np.arange(0, 1 << 32, 70_001, dtype=np.uint64).astype(np.uint32)
    parts = [
        bits.view(np.float32),
        np.linspace(-110, 95, 20_001),
        np.linspace(-10, 10, 20_001),
        np.linspace(-1.2, 1.2, 20_001),
        np.array(SPECIAL),
    ]
    return np.concatenate([part.astype("float32") for part in parts])


def _evaluate(body: relay.Expr, x: np.ndarray) -> np.ndarray:
    target = resolve_target(TARGET)
    with lowering(target):
        library = relay.build(as_block(body), target)
    (found,) = run_once(library, {"x": x})
    return found


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_in_units_in_the_last_place(name: str) -> None:
    function, reference, bound = FUNCTIONS[name]
    x = _arguments()
    found = _evaluate(function(var("x", len(x))), x)
    with np.errstate(all="ignore"):
        exact = reference(x.astype("float64"))
        expected = exact.astype("float32")
    plain = np.isfinite(expected) & (expected != 0)
    np.testing.assert_array_equal(found[~plain], expected[~plain])
    spacing = np.spacing(np.abs(expected[plain])).astype("float64")
    errors = np.abs(found[plain].astype("float64") - exact[plain]) / spacing
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound, f"{errors[worst]} units at {x[plain][worst]}"


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
