from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pytest

from tvm_fusionx.memory.integer_program import IntegerProgram

LOWER, UPPER = np.zeros(2), np.full(2, 9.0)


def _program() -> IntegerProgram:
    """Return ``x0 >= 1.5`` and ``x1 >= x0 + 1``, as inequalities that bound from above."""
    program = IntegerProgram()
    program.at_most([(0, -1)], -1.5)
    program.at_most([(0, 1), (1, -1)], -1)
    return program


@pytest.mark.parametrize(("whole", "least"), [((0, 0), 2.5), ((1, 0), 3.0), ((0, 1), 3.0)])
def test_the_least_value_is_found(whole: tuple[int, int], least: float) -> None:
    answer = _program().least(1, np.array(whole), LOWER, UPPER, 10.0)
    assert answer.x[1] == pytest.approx(least)


def test_what_cannot_be_is_no_answer() -> None:
    assert _program().least(1, np.ones(2), LOWER, np.ones(2), 10.0) is None


def test_without_scipy_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def refuse(name: str, *rest: Any, **named: Any) -> Any:
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return original(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", refuse)
    assert _program().least(1, np.ones(2), LOWER, UPPER, 10.0) is None
