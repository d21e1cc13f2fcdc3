from __future__ import annotations

import builtins
from typing import Any

import pytest

from tests.memory.programs import LENT
from tests.memory.test_offsets import tenant
from tvm_fusionx.memory import plan_memory
from tvm_fusionx.memory.lending import Lender, lend
from tvm_fusionx.memory.lending_solver import solve_lending
from tvm_fusionx.memory.lifetimes import ALIGNMENT, live_bytes
from tvm_fusionx.memory.offsets import why_not_apart

# A chain of equal tensors: every second may be lent. The greedy way begins at the moment that needs
# the most, where a small third is, and takes the wrong half from there on.
CHAIN = [tenant(10, n, n + 1) for n in range(7)]
ROOM = Lender(99, 10 * ALIGNMENT, 9)


def _left(lent: dict[int, tuple[int, int]]) -> int:
    return max(live_bytes([each for n, each in enumerate(CHAIN) if n not in lent], 9))


def test_every_second_of_a_chain_is_lent() -> None:
    loans = solve_lending(CHAIN, [ROOM], 9, 10.0)
    assert _left(loans) == 10 * ALIGNMENT <= _left(lend(CHAIN, [ROOM], 9))
    lot = [CHAIN[number] for number in loans]
    assert why_not_apart(lot, [place for _, place in loans.values()]) is None


def test_a_lender_holds_no_more_than_it_has() -> None:
    rooms = [Lender(98, 4 * ALIGNMENT, 5), Lender(99, 6 * ALIGNMENT, 5)]
    lot = [tenant(4, 0, 2), tenant(6, 1, 3), tenant(4, 2, 4), tenant(3, 3, 4), tenant(9, 0, 4)]
    loans = solve_lending(lot, rooms, 6, 10.0)
    for room in rooms:
        held = [n for n, (who, _) in loans.items() if who == room.buffer]
        places = [loans[n][1] for n in held]
        assert why_not_apart([lot[n] for n in held], places) is None
        ends = [place + lot[n].bytes for n, place in zip(held, places, strict=True)]
        assert max(ends, default=0) <= room.bytes
    assert 4 not in loans


def test_nobody_is_lent_to_where_nothing_fits() -> None:
    assert solve_lending(CHAIN, [Lender(99, 64, 9)], 9, 1.0) == {}
    assert solve_lending(CHAIN, [Lender(99, 640, 0)], 9, 1.0) == {}


def test_without_scipy_the_greedy_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return original(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert solve_lending(CHAIN, [ROOM], 9, 1.0) == {}
    assert plan_memory(LENT).arena_bytes == 128
