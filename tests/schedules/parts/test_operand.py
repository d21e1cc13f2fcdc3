"""Chunks of a gathered operand lie apart, and what was stored is read again."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import tir

from tests.relay_modules import EXACT, assert_close
from tvm_fusionx.schedules.parts.operand import CHUNK_GAP, GatheredOperand

CHUNKS, ROWS, INNER = 3, 4, 2


def test_what_is_gathered_is_read_again() -> None:
    data = tir.decl_buffer((CHUNKS, ROWS, INNER), "float32", "data")
    found = tir.decl_buffer((ROWS, CHUNKS, INNER), "float32", "found")
    ib = tir.ir_builder.create()
    wide = GatheredOperand(ib, "float32", CHUNKS, ROWS * INNER)
    assert [int(extent) for extent in wide.buffer.shape] == [CHUNKS * (ROWS * INNER + CHUNK_GAP)]
    for is_read in (False, True):
        with (
            ib.for_range(0, CHUNKS, "chunk") as chunk,
            ib.for_range(0, ROWS, "row") as row,
            ib.for_range(0, INNER, "inner") as inner,
        ):
            if is_read:
                value = wide.load(chunk, row * INNER + inner)
                ib.emit(tir.BufferStore(found, value, [row, chunk, inner]))
            else:
                value = tir.BufferLoad(data, [chunk, row, inner])
                ib.emit(wide.store(value, chunk, row * INNER, inner))
    built = tvm.build(tir.PrimFunc([data, found], ib.get()), "llvm")
    given = np.arange(CHUNKS * ROWS * INNER, dtype="float32").reshape(CHUNKS, ROWS, INNER)
    result = tvm.nd.empty((ROWS, CHUNKS, INNER))
    built(tvm.nd.array(given), result)
    assert_close([result.numpy()], [given.transpose(1, 0, 2)], EXACT)
