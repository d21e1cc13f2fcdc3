"""Sums start at zero, add products, and are stored lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.relay_modules import EXACT, assert_close
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import broadcast, ramp


@pytest.mark.parametrize("lanes", [1, 4])
def test_sums_of_products(lanes: int) -> None:
    left = tir.decl_buffer((2, lanes), "float32", "left")
    found = tir.decl_buffer((2, lanes), "float32", "found")
    ib = tir.ir_builder.create()
    sums = VectorSums(ib, 2, lanes, "float32")
    sums.fill()
    factor = broadcast(tir.const(2.0, "float32"), lanes)

    def store(row: Any, lane: Any, value: Any) -> Any:
        return tir.BufferStore(found, value, [row, lane])

    for place in (0, 1, 1):
        sums.add_product(place, tir.BufferLoad(left, [place, ramp(0, lanes)]), factor)
    for place in (0, 1):
        sums.store(store, (place,), place)
    built = tvm.build(tir.PrimFunc([left, found], ib.get()), "llvm")
    given = np.arange(1, 1 + 2 * lanes, dtype="float32").reshape(2, lanes)
    result = tvm.nd.empty((2, lanes))
    built(tvm.nd.array(given), result)
    assert_close([result.numpy()], [given * np.array([[2.0], [4.0]], "float32")], EXACT)


def test_one_lane_is_no_vector() -> None:
    assert ramp(3, 1) == 3
    assert broadcast(3.0, 1) == 3.0


@pytest.mark.parametrize("lanes", [1, 4])
def test_the_largest_of_several_vectors(lanes: int) -> None:
    given = tir.decl_buffer((3, lanes), "float32", "given")
    found = tir.decl_buffer((lanes,), "float32", "found")
    ib = tir.ir_builder.create()
    sums = VectorSums(ib, 1, lanes, "float32")
    sums.fill(tir.const(-1.0, "float32"))
    for row in range(3):
        sums.combine(0, tir.Max, tir.BufferLoad(given, [row, ramp(0, lanes)]))
    sums.store(lambda lane, value: tir.BufferStore(found, value, [lane]), (), 0)
    built = tvm.build(tir.PrimFunc([given, found], ib.get()), "llvm")
    data = np.random.default_rng(0).standard_normal((3, lanes)).astype("float32")
    result = tvm.nd.empty((lanes,))
    built(tvm.nd.array(data), result)
    assert_close([result.numpy()], [np.maximum(data.max(0), -1)], EXACT)
