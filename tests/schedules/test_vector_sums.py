"""Sums start at zero, add products, and are stored lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.relay_modules import EXACT, assert_close
from tvm_fusionx.schedules.vector_sums import VectorSums, broadcast, ramp


@pytest.mark.parametrize("lanes", [1, 4])
def test_sums_of_products(lanes: int) -> None:
    left = tir.decl_buffer((2, lanes), "float32", "left")
    found = tir.decl_buffer((2, lanes), "float32", "found")
    ib = tir.ir_builder.create()
    sums = VectorSums(ib, 2, lanes, "float32")
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
