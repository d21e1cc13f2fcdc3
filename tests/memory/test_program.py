from __future__ import annotations

import pytest

from tests.memory.programs import BRANCHES, program
from tvm_fusionx.memory.program import Buffer, Call, Program, why_not_in_order


def test_a_call_waits_for_what_it_reads() -> None:
    assert BRANCHES.producers() == tuple(map(frozenset, ([], [0], [0], [1], [2], [3, 4])))


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        ((0, 1, 2, 3, 4, 5), None),
        ((0, 2, 4, 1, 3, 5), None),
        ((0, 3, 1, 2, 4, 5), "k3 would run before k1, whose result it reads"),
        ((0, 1, 2, 3, 4), "it does not have every call once"),
        ((0, 1, 1, 3, 4, 5), "it does not have every call once"),
    ],
)
def test_an_order_is_proved_by_dependence(order: tuple[int, ...], reason: str | None) -> None:
    assert why_not_in_order(BRANCHES, order) == reason


def test_what_lies_outside_orders_calls_too() -> None:
    outside = Program((Buffer("t0", 64, True),), (Call("k0", (), (0,)), Call("k1", (0,), ())))
    assert why_not_in_order(outside, (1, 0)) is not None


def test_two_writers_of_one_buffer_are_refused() -> None:
    twice = Program((Buffer("t0", 64),), (Call("k0", (), (0,)), Call("k1", (), (0,))))
    with pytest.raises(ValueError, match="t0: two calls write it"):
        twice.producers()
    assert program(([], 1)).writers() == {0: 0}
