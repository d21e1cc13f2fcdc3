from __future__ import annotations

from tvm_fusionx.tir.numbers import divisors


def test_divisors_are_ascending() -> None:
    assert divisors(1) == [1]
    assert divisors(12) == [1, 2, 3, 4, 6, 12]
