"""Arithmetic of extents."""

from __future__ import annotations


def divisors(number: int) -> list[int]:
    """Return the divisors of `number`, ascending."""
    return [each for each in range(1, number + 1) if number % each == 0]


def prime_factors(number: int) -> list[int]:
    """Return the primes whose product is `number`, the least first."""
    found = []
    while number > 1:
        prime = next(each for each in range(2, number + 1) if number % each == 0)
        found.append(prime)
        number //= prime
    return found
