from __future__ import annotations

import builtins
from typing import Any

import pytest

from tests.memory.test_offsets import tenant
from tvm_fusionx.memory.lifetimes import live_bytes
from tvm_fusionx.memory.offsets import arena_of, why_not_apart
from tvm_fusionx.memory.solver import MOST_PAIRS, can_solve, solve

LOT = [tenant(1, 0, 1), tenant(1, 1, 2), tenant(2, 2, 3), tenant(2, 3, 4), tenant(1, 0, 4)]


def test_the_solver_finds_the_least() -> None:
    known = [0, 64, 128, 256, 384]
    bound = max(live_bytes(LOT, 5))
    assert arena_of(LOT, known) > bound
    answer = solve(LOT, known, bound, 10.0)
    assert answer is not None
    assert why_not_apart(LOT, answer[0]) is None
    assert arena_of(LOT, answer[0]) == answer[1] == bound


def test_few_enough_pairs_are_asked_about() -> None:
    assert can_solve(LOT)
    assert not can_solve([])
    crowd = [tenant(1, 0, 0)] * 40
    assert len(crowd) * (len(crowd) - 1) // 2 > MOST_PAIRS
    assert not can_solve(crowd)


def test_without_scipy_the_known_places_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return original(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert solve(LOT, [0, 64, 128, 256, 512], 0, 1.0) is None
