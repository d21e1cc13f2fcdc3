"""Functions of one float32, where they bend, and how far off a kernel may be on any processor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relay

special = pytest.importorskip("scipy.special")

SMALLEST_NORMAL = np.finfo("float32").tiny

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


# These stay calls of libm, which takes numbers apart by their bits: denormals are no zeros to it.
LIBM = ("sin", "cos", "pow")


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


def assert_accurate(name: str, x: np.ndarray, found: np.ndarray, is_flushed: bool = True) -> None:
    """Hold what a kernel made of `x` to the function's bound, and special results to the bit.

    Parameters
    ----------
    is_flushed
        Whether the kernel takes denormal numbers for zero: the function is then that of zero where
        `x` is denormal, and results below the smallest normal number are off by that at most.
    """
    _, reference, bound = FUNCTIONS[name]
    takes_zero = is_flushed and name not in LIBM
    is_denormal = takes_zero & (np.abs(x) < SMALLEST_NORMAL) & (x != 0)
    with np.errstate(all="ignore"):
        exact = reference(np.where(is_denormal, np.copysign(0, x), x).astype("float64"))
        expected = exact.astype("float32")
    is_small = is_flushed & (np.abs(exact) < SMALLEST_NORMAL) & (is_denormal | (exact != 0))
    assert (np.abs(found[is_small] - exact[is_small]) <= SMALLEST_NORMAL).all(), name
    plain = np.isfinite(expected) & (expected != 0) & ~is_small
    rest = ~plain & ~is_small
    np.testing.assert_array_equal(found[rest], expected[rest])
    spacing = np.spacing(np.abs(expected[plain])).astype("float64")
    errors = np.abs(found[plain].astype("float64") - exact[plain]) / spacing
    worst = int(np.argmax(errors))
    assert errors[worst] <= bound, f"{name}: {errors[worst]} units at {x[plain][worst]}"
