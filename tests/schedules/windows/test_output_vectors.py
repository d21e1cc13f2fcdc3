"""Output channels as vectors: whole chunks, several in one vector, an odd number of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.relay_modules import EXACT, assert_close
from tests.schedules.blocked_blocks import AVX2, AVX512, NEON, dense, describe
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors, with_joined_chunks
from tvm_fusionx.schedules.windows.structure import Window, find_window


def window(outputs: int, block: int) -> Window:
    found = find_window(describe(dense(8, (3, 5), outputs, (1, 1), blocks=(8, block))))
    assert isinstance(found, Window)
    return found


@pytest.mark.parametrize(
    ("outputs", "block", "cpu", "number", "lanes"),
    [
        (24, 8, AVX512, 2, 16),
        (40, 8, AVX512, 3, 16),
        (48, 16, AVX512, 3, 16),
        (8, 8, AVX512, 1, 8),
        (12, 4, AVX512, 2, 8),
        (24, 12, AVX512, 2, 12),
        (24, 8, AVX2, 3, 8),
        (20, 4, AVX2, 3, 8),
        (12, 4, NEON, 3, 4),
        (10, 2, NEON, 3, 4),
    ],
)
def test_as_many_chunks_as_a_vector_holds(
    outputs: int, block: int, cpu: Cpu, number: int, lanes: int
) -> None:
    layer = window(outputs, block)
    vectors = OutputVectors.of(layer, cpu)
    assert (vectors.number, vectors.lanes) == (number, lanes)
    assert with_joined_chunks(layer, cpu).out_shape == (1, number, 3, 5, lanes)


# Three chunks in two vectors: the second begins with the chunk that the first ends with.
@pytest.mark.parametrize(("chunks", "joined"), [(3, 1), (4, 2), (3, 2), (5, 4)])
def test_each_chunk_is_loaded_and_stored_in_its_place(chunks: int, joined: int) -> None:
    lanes, rows = 2, 3
    vectors = OutputVectors(chunks, lanes, joined)
    weights = tir.decl_buffer((chunks, rows, lanes), "float32", "weights")
    found = tir.decl_buffer((1, chunks, rows, 1, lanes), "float32", "found")
    ib = tir.ir_builder.create()

    def store(*place: Any) -> Any:
        *at, value = place
        return tir.BufferStore(found, value * tir.const(2, "float32"), at)

    with (
        ib.for_range(0, vectors.number, "vector") as vector,
        ib.for_range(0, rows, "row") as row,
    ):
        sums = VectorSums(ib, 2, vectors.lanes, "float32")
        sums.put(1, vectors.load(weights, vector, (row,)))
        vectors.store(sums, store, (0, row, 0), vectors.first_chunk(vector), 1)
    built = tvm.build(tir.PrimFunc([weights, found], ib.get()), "llvm")
    given = np.random.default_rng(0).standard_normal((chunks, rows, lanes), dtype="float32")
    result = tvm.nd.array(np.full((1, chunks, rows, 1, lanes), np.nan, "float32"))
    built(tvm.nd.array(given), result)
    assert_close([result.numpy()[0, :, :, 0]], [2 * given], EXACT)
