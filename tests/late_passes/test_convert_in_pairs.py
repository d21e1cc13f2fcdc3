"""Two neighbouring vectors of halves are converted from one load."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.late_passes.halves_in_pairs import (
    LANES,
    instructions,
    lanes_loaded,
    lines,
    lowered,
    run,
    widened,
)
from tvm_fusionx.late_passes.convert_in_pairs import NEAR, convert_in_pairs

PASS = convert_in_pairs(LANES)


@pytest.mark.parametrize(
    ("starts", "lanes"),
    [
        ([0, 4], [8]),
        ([0, 4, 8], [8, 4]),
        ([8, 0, 12, 4], [8, 8]),
        ([2, 6, 14, 30], [8, 4, 4]),
        ([0, 4, 0], [8]),
    ],
)
def test_neighbours_are_one_load_and_the_numbers_stay(starts: list[int], lanes: list[int]) -> None:
    func = lines(starts, widened, "float16", "float32")
    assert lanes_loaded(lowered(func, PASS)) == lanes
    x = np.random.default_rng(0).standard_normal(3 * 64).astype("float16")
    np.testing.assert_array_equal(run(func, x, "float32", PASS), run(func, x, "float32"))


def test_the_upper_half_of_a_register_is_converted() -> None:
    func = lines([0, 4], lambda x, at: widened(x, at) * widened(x, at), "float16", "float32")
    before, after = instructions(func), instructions(func, PASS)
    assert before["fcvtl"] == 2 * after["fcvtl"] == 2 * after["fcvtl2"] > 0, (before, after)


def test_what_is_read_far_apart_waits_in_no_register() -> None:
    between = [32 + LANES * 2 * each for each in range(NEAR)]
    near, far = [0, *between[1:], 4], [0, *between, 4]
    counts = [
        lanes_loaded(lowered(lines(starts, widened, "float16", "float32", wide=256), PASS)).count(8)
        for starts in (near, far)
    ]
    assert counts == [1, 0]


def _sometimes(x: Any, at: Any) -> Any:
    """Return a vector that is read in the row of number 1 alone."""
    one = tir.Cast("float32", tir.BufferLoad(x, [at]))
    vector = tir.Broadcast(tir.const(0, "float32"), LANES)
    return tir.Select(tir.Broadcast(one > 0, LANES), widened(x, at), vector)


@pytest.mark.parametrize(
    ("starts", "value"), [([0, 8, 16], widened), ([0, 4], _sometimes), ([0, 2], widened)]
)
def test_what_has_no_neighbour_or_is_not_always_read_stays(starts: list[int], value: Any) -> None:
    func = lines(starts, value, "float16", "float32")
    assert tvm.ir.structural_equal(lowered(func, PASS), lowered(func))


def test_what_the_line_writes_is_not_read_early() -> None:
    x = tir.decl_buffer((64,), "float16", "x")
    ib = tir.ir_builder.create()
    for start in (0, 4, 8):
        twice = widened(x, start) + widened(x, start)
        ib.emit(tir.BufferStore(x, tir.Cast("float16x4", twice), [tir.Ramp(start + 4, 1, LANES)]))
    func = tir.PrimFunc([x], ib.get())
    assert tvm.ir.structural_equal(lowered(func, PASS), lowered(func))


def _tile(rows: int, vectors: int) -> Any:
    """Return a function that adds up rows of vectors, each row far from the one before."""
    x = tir.decl_buffer((rows * 256,), "float16", "x")
    y = tir.decl_buffer((vectors * LANES,), "float32", "y")
    sums = tir.decl_buffer((vectors,), f"float32x{LANES}", "sums", scope="local")
    line = []
    for row in range(rows):
        for place in range(vectors):
            value = widened(x, row * 256 + place * LANES)
            if row:
                value = tir.BufferLoad(sums, [place]) + value
            line.append(tir.BufferStore(sums, value, [place]))
    line += [
        tir.BufferStore(y, tir.BufferLoad(sums, [each]), [tir.Ramp(each * LANES, 1, LANES)])
        for each in range(vectors)
    ]
    true = tir.const(1, "bool")
    body = tir.Allocate(sums.data, sums.dtype, sums.shape, true, tir.SeqStmt(line))
    return tir.PrimFunc([x, y], body)


@pytest.mark.parametrize(("rows", "vectors", "ordered"), [(2, 8, 0), (3, 8, 16), (5, 4, 16)])
def test_sums_of_a_row_come_before_the_next_row_where_registers_are_few(
    rows: int, vectors: int, ordered: int
) -> None:
    text = str(lowered(_tile(rows, vectors), PASS))
    assert text.count('"fusionx_sum_first"') == ordered
