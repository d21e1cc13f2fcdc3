"""Rounding to the nearest whole number, halves to the even one, as one operator."""

from __future__ import annotations

from tvm import tir

from tvm_fusionx._tvm.registry import compute_on_vectors, register_elementwise_operator

ROUND_EVEN = "fusionx.round_even"

# What `tir.nearbyint` makes.
ROUNDING = "tir.nearbyint"


def register_rounding() -> None:
    """Make the operator known to Relay, which has none that rounds halves so; idempotent."""
    # TVM takes a loop around a rounding for one that must stay scalar, and so quantizations.
    compute_on_vectors(ROUNDING)
    register_elementwise_operator(ROUND_EVEN, tir.nearbyint)
