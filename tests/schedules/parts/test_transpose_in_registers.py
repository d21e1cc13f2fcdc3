"""Vectors are turned: lane after lane, in as few shuffles as their primes take."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules.parts.transpose_in_registers import parted, prime_factors, turned
from tvm_fusionx.schedules.parts.vectors import ramp

NUMBERS = range(2, 17)
LANES = [1, 2, 4, 8, 16]


def _turn(number: int, lanes: int, dtype: str = "float32", turn: Any = turned) -> Any:
    given = tir.decl_buffer((number, lanes), dtype, "given")
    found = tir.decl_buffer((number * lanes,), dtype, "found")
    ib = tir.ir_builder.create()
    rows = [tir.BufferLoad(given, [row, ramp(0, lanes)]) for row in range(number)]
    columns = turn(ib, rows, lanes, dtype)
    for row in range(number):
        at = ramp(row * lanes, lanes)
        ib.emit(tir.BufferStore(found, tir.BufferLoad(columns, [at]), [at]))
    return tir.PrimFunc([given, found], ib.get())


def _shuffles(func: Any) -> list[Any]:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.Shuffle):
            found.append(node)

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("number", NUMBERS)
def test_rows_come_to_lie_lane_after_lane(number: int, lanes: int) -> None:
    data = np.arange(number * lanes, dtype="float32").reshape(number, lanes)
    assert_kernel(_turn(number, lanes), "llvm", [data], [data.T.reshape(-1)], 0)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("number", NUMBERS)
def test_what_lies_together_is_taken_apart(number: int, lanes: int) -> None:
    data = np.arange(number * lanes, dtype="float32").reshape(number, lanes)
    expected = data.reshape(lanes, number).T.reshape(-1)
    assert_kernel(_turn(number, lanes, turn=parted), "llvm", [data], [expected], 0)


@pytest.mark.parametrize("dtype", ["int8", "float16", "int32", "float64"])
def test_other_numbers_are_turned_too(dtype: str) -> None:
    data = np.arange(24).astype(dtype).reshape(3, 8)
    found = tvm.nd.empty((24,), dtype)
    tvm.build(_turn(3, 8, dtype), "llvm")(tvm.nd.array(data), found)
    np.testing.assert_array_equal(found.numpy(), data.T.reshape(-1))


@pytest.mark.parametrize("turn", [turned, parted])
@pytest.mark.parametrize("number", NUMBERS)
def test_there_are_as_many_shuffles_as_its_primes_take(number: int, turn: Any) -> None:
    shuffles = _shuffles(_turn(number, 16, turn=turn))
    assert len(shuffles) == number * sum(prime - 1 for prime in prime_factors(number))
    assert all(len(each.vectors) == 2 for each in shuffles)


def test_rows_of_one_lane_are_in_order() -> None:
    assert _shuffles(_turn(6, 1)) == []


@pytest.mark.parametrize("number", [*NUMBERS, 97, 360])
def test_a_number_is_the_product_of_its_primes(number: int) -> None:
    primes = prime_factors(number)
    assert math.prod(primes) == number
    assert primes == sorted(primes)
    assert all(prime_factors(prime) == [prime] for prime in primes)
