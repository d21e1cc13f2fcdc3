"""Functions of one float32, where they bend, and how far off a kernel may be on any processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relay

special = pytest.importorskip("scipy.special")

SPECIAL = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 88.7, 88.73, -87.3, -103.9, -104.5)

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float]] = {
    "exp": (relay.exp, np.exp, 1),
    "log": (relay.log, np.log, 1),
    "erf": (relay.erf, special.erf, 2),
    "sigmoid": (relay.sigmoid, special.expit, 3),
    "tanh": (relay.tanh, np.tanh, 5),
    "sqrt": (relay.sqrt, np.sqrt, 1),
    "rsqrt": (relay.rsqrt, lambda x: 1 / np.sqrt(x), 2),
    "sin": (relay.sin, np.sin, 1),
    "cos": (relay.cos, np.cos, 1),
    "pow": (lambda x: relay.power(x, relay.const(2.5)), lambda x: x**2.5, 1),
}
"""For each: in Relay, in float64, and the largest error in units in the last place."""


def arguments() -> np.ndarray:
    """Return every 7,000th float32, dense samples where the functions bend, special values."""
    bits = np.arange(0, 1 << 32, 7_001, dtype=np.uint64).astype(np.uint32)
    parts = [
        bits.view(np.float32),
        np.linspace(-110, 95, 20_001),
        np.linspace(-10, 10, 400_001),
        np.linspace(-1.2, 1.2, 20_001),
        np.array(SPECIAL),
    ]
    return np.concatenate([part.astype("float32") for part in parts])


def assert_accurate(name: str, x: np.ndarray, found: np.ndarray) -> None:
    """Hold what a kernel made of `x` to the function's bound, and special results to the bit."""
    _, reference, bound = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        exact = reference(x.astype("float64"))
        expected = exact.astype("float32")
    plain = np.isfinite(expected) & (expected != 0)
    np.testing.assert_array_equal(found[~plain], expected[~plain])
    spacing = np.spacing(np.abs(expected[plain])).astype("float64")
    errors = np.abs(found[plain].astype("float64") - exact[plain]) / spacing
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound, f"{name}: {errors[worst]} units at {x[plain][worst]}"
