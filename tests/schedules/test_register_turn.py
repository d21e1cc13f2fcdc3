"""Vectors are turned: lane after lane, in as few shuffles as their primes take."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.schedules.register_turn import RegisterTurn, smallest_factor, turning_steps
from tvm_fusionx.schedules.vector_sums import ramp

NUMBERS = range(1, 17)
LANES = [1, 2, 4, 8, 16]


def _turn(number: int, lanes: int, dtype: str = "float32") -> tuple[Any, Any, Any]:
    given = tir.decl_buffer((number, lanes), dtype, "given")
    found = tir.decl_buffer((number * lanes,), dtype, "found")
    ib = tir.ir_builder.create()
    turn = RegisterTurn(ib, number, lanes, dtype)
    for vector in range(number):
        at = ramp(turn.place(vector, 0), lanes)
        ib.emit(tir.BufferStore(turn.buffer, tir.BufferLoad(given, [vector, ramp(0, lanes)]), [at]))
    for vector, value in enumerate(turn.turned()):
        ib.emit(tir.BufferStore(found, value, [ramp(vector * lanes, lanes)]))
    return given, found, ib.get()


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("number", NUMBERS)
def test_vectors_come_to_lie_lane_after_lane(number: int, lanes: int) -> None:
    given, found, stmt = _turn(number, lanes)
    built = tvm.build(tir.PrimFunc([given, found], stmt), "llvm")
    data = np.arange(number * lanes, dtype="float32").reshape(number, lanes)
    turned = tvm.nd.empty((number * lanes,))
    built(tvm.nd.array(data), turned)
    np.testing.assert_array_equal(turned.numpy(), data.T.reshape(-1))


def test_integers_are_turned_too() -> None:
    given, found, stmt = _turn(3, 8, "int32")
    built = tvm.build(tir.PrimFunc([given, found], stmt), "llvm")
    data = np.arange(24, dtype="int32").reshape(3, 8)
    turned = tvm.nd.empty((24,), "int32")
    built(tvm.nd.array(data), turned)
    np.testing.assert_array_equal(turned.numpy(), data.T.reshape(-1))


@pytest.mark.parametrize("number", NUMBERS)
def test_there_are_no_more_shuffles_than_its_primes_take(number: int) -> None:
    _, _, stmt = _turn(number, 16)
    shuffles: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Shuffle):
            shuffles.append(node)

    tir.stmt_functor.post_order_visit(stmt, visit)
    assert len(shuffles) <= sum(most for _, most in turning_steps(number))
    assert all(len(each.vectors) == 2 for each in shuffles)


def test_steps_are_the_primes() -> None:
    assert turning_steps(1) == []
    assert turning_steps(12) == [(2, 12), (2, 12), (3, 24)]
    assert turning_steps(15) == [(3, 30), (5, 60)]
    assert [smallest_factor(number) for number in (2, 9, 15, 13)] == [2, 3, 3, 13]
