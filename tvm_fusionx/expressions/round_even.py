"""Rounding to the nearest whole number, halves to the even one, as one operator."""

from __future__ import annotations

from tvm import tir

from tvm_fusionx._tvm.registry import register_elementwise_operator

ROUND_EVEN = "fusionx.round_even"


def register_rounding() -> None:
    """Make the operator known to Relay, which has none that rounds halves so; idempotent."""
    register_elementwise_operator(ROUND_EVEN, tir.nearbyint)
