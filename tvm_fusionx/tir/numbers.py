"""Arithmetic of extents."""

from __future__ import annotations


def divisors(number: int) -> list[int]:
    """Return the divisors of `number`, ascending."""
    return [each for each in range(1, number + 1) if number % each == 0]
