"""One skeleton: what fills its holes makes a product of matrices, or a window with a border."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.relay_modules import EXACT, REASSOCIATING, assert_close
from tvm_fusionx.schedules.parts.microkernel import Microkernel, places_by_rows, terms
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import broadcast, ramp

ROWS, VECTORS, LANES, DEPTH = 3, 2, 4, 5


def _matrix(shape: tuple[int, ...], name: str) -> Any:
    return tir.decl_buffer(shape, "float32", name)


@pytest.mark.parametrize("initial", [None, 2.0])
def test_a_product_of_matrices(initial: float | None) -> None:
    left, right = _matrix((ROWS, DEPTH), "left"), _matrix((DEPTH, VECTORS * LANES), "right")
    found = _matrix((ROWS, VECTORS * LANES), "found")
    ib, places = tir.ir_builder.create(), places_by_rows(ROWS, VECTORS)

    def store(sums: VectorSums) -> None:
        for number, (row, vector) in enumerate(places):
            at = [row, ramp(vector * LANES, LANES)]
            ib.emit(tir.BufferStore(found, sums.value(number), at))

    def begin(sums: VectorSums) -> None:
        sums.fill(None if initial is None else tir.const(initial, "float32"))

    Microkernel(
        places,
        LANES,
        "float32",
        lambda term, row, _: broadcast(tir.BufferLoad(left, [row, *term]), LANES),
        lambda term, _, vector: tir.BufferLoad(right, [*term, ramp(vector * LANES, LANES)]),
        store,
        begin=begin,
    ).emit(ib, terms(ib, depth=DEPTH))
    built = tvm.build(tir.PrimFunc([left, right, found], ib.get()), "llvm")
    rng = np.random.default_rng(0)
    one = rng.standard_normal((ROWS, DEPTH)).astype("float32")
    other = rng.standard_normal((DEPTH, VECTORS * LANES)).astype("float32")
    result = tvm.nd.empty((ROWS, VECTORS * LANES))
    built(tvm.nd.array(one), tvm.nd.array(other), result)
    assert_close([result.numpy()], [one @ other + np.float32(initial or 0)], REASSOCIATING)


def test_places_without_an_operand_are_left_out_and_steps_are_written_out() -> None:
    data, found = _matrix((3, LANES), "data"), _matrix((3, LANES), "found")
    ib = tir.ir_builder.create()

    @contextmanager
    def taps() -> Iterator[range]:
        yield range(-1, 2)

    def element(tap: int, row: int, _: int) -> Any:
        at = row + tap
        return tir.BufferLoad(data, [at, ramp(0, LANES)]) if 0 <= at < 3 else None

    def store(sums: VectorSums) -> None:
        for row in range(3):
            sums.store(
                lambda at, lane, value: tir.BufferStore(found, value, [at, lane]), (row,), row
            )

    Microkernel(
        places_by_rows(3, 1),
        LANES,
        "float32",
        element,
        lambda *_: None,
        store,
        product=lambda sums, place, element, _: sums.combine(place, tir.Max, element),
        begin=lambda sums: sums.fill(tir.min_value("float32")),
    ).emit(ib, taps())
    built = tvm.build(tir.PrimFunc([data, found], ib.get()), "llvm")
    given = np.random.default_rng(0).standard_normal((3, LANES)).astype("float32")
    result = tvm.nd.empty((3, LANES))
    built(tvm.nd.array(given), result)
    expected = [given[max(0, row - 1) : row + 2].max(0) for row in range(3)]
    assert_close([result.numpy()], [np.stack(expected)], EXACT)
