from __future__ import annotations

from tvm_fusionx.processors import rates


def test_every_rate_is_positive() -> None:
    numbers = [value for name, value in vars(rates).items() if name.isupper()]
    assert numbers
    assert all(value > 0 for value in numbers)
