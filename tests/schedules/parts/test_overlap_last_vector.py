"""Tests of vectors that move back: no test is left, and the numbers stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tests.relay_modules import REASSOCIATING, assert_close
from tvm_fusionx.schedules.parts.overlap_last_vector import move_last_vectors

LANES = 8


def _scheduled(rows: int, columns: int, *, fuse: bool = False, lanes: int = LANES) -> Any:
    """Return a kernel of ``data * 2 + columns`` in vectors of so many lanes."""
    data = te.placeholder((rows, columns), name="data")
    out = te.compute(
        (rows, columns), lambda i, j: data[i, j] * 2.0 + j.astype("float32"), name="out"
    )
    sch = tir.Schedule(te.create_prim_func([data, out], index_dtype_override="int64"))
    row, column = sch.get_loops(sch.get_block("out"))
    _, lane = sch.split(sch.fuse(row, column) if fuse else column, [None, lanes])
    sch.vectorize(lane)
    return sch.mod["main"]


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(3, 11), (1, 8), (5, 29)])
def test_no_vector_of_a_row_has_a_test(rows: int, columns: int, fuse: bool) -> None:
    before = _scheduled(rows, columns, fuse=fuse)
    func = move_last_vectors(before)
    size = rows * columns if fuse else columns
    assert ("T.where" in before.script()) == bool(size % LANES)
    assert "T.where" not in func.script()
    assert func.script().count("T.vectorized") == 1
    # A template's result becomes a schedule once more.
    tir.Schedule(func)
    data = np.random.default_rng(0).standard_normal((rows, columns)).astype("float32")
    out = tvm.nd.array(np.zeros((rows, columns), "float32"))
    tvm.build(func, "llvm")(tvm.nd.array(data), out)
    expected = data * 2 + np.arange(columns, dtype="float32")
    assert_close([out.numpy()], [expected], REASSOCIATING)


def test_an_axis_shorter_than_a_vector_keeps_its_test() -> None:
    func = _scheduled(3, 5)
    assert tvm.ir.structural_equal(move_last_vectors(func), func)


def test_what_accumulates_keeps_its_test() -> None:
    data = te.placeholder((4, 11), name="data")
    k = te.reduce_axis((0, 4), name="k")
    out = te.compute((11,), lambda j: te.sum(data[k, j], axis=k), name="out")
    sch = tir.Schedule(te.create_prim_func([data, out], index_dtype_override="int64"))
    column, row = sch.get_loops(sch.get_block("out"))
    outer, lane = sch.split(column, [None, LANES])
    sch.reorder(outer, row, lane)
    sch.vectorize(lane)
    sch.decompose_reduction(sch.get_block("out"), row)
    func = sch.mod["main"]
    assert tvm.ir.structural_equal(move_last_vectors(func), func)


def test_what_shares_the_loop_with_its_operand_keeps_its_test() -> None:
    data = te.placeholder((3, 11), name="data")
    half = te.compute((3, 11), lambda i, j: data[i, j] * 0.5, name="half")
    out = te.compute((3, 11), lambda i, j: half[i, j] + 1.0, name="out")
    sch = tir.Schedule(te.create_prim_func([data, out], index_dtype_override="int64"))
    _, column = sch.get_loops(sch.get_block("out"))
    outer, lane = sch.split(column, [None, LANES])
    sch.compute_at(sch.get_block("half"), outer)
    sch.vectorize(lane)
    func = sch.mod["main"]
    assert tvm.ir.structural_equal(move_last_vectors(func), func)


def test_a_choice_by_the_place_of_an_element_stays_right() -> None:
    data = te.placeholder((16,), name="data")
    out = te.compute((17,), lambda j: te.if_then_else(j < 16, data[j], 7.0), name="out")
    sch = tir.Schedule(te.create_prim_func([data, out], index_dtype_override="int64"))
    (column,) = sch.get_loops(sch.get_block("out"))
    _, lane = sch.split(column, [None, 16])
    sch.vectorize(lane)
    func = move_last_vectors(sch.mod["main"])
    assert "T.where" not in func.script()
    values = np.arange(1, 17, dtype="float32")
    found = tvm.nd.array(np.zeros(17, "float32"))
    tvm.build(func, "llvm")(tvm.nd.array(values), found)
    np.testing.assert_array_equal(found.numpy(), [*values, 7.0])


def _of_sums(*, again: bool) -> Any:
    """Return a kernel whose stage `half` halves sums, which are read `again` after it or not."""
    data = te.placeholder((4, 11), name="data")
    k, j = te.reduce_axis((0, 4), name="k"), te.reduce_axis((0, 11), name="j")
    sums = te.compute((11,), lambda j: te.sum(data[k, j], axis=k), name="sums")
    half = te.compute((11,), lambda j: sums[j] * 0.5 + 1.0, name="half")
    read = half[j] + sums[j] if again else half[j]
    total = te.compute((1,), lambda _: te.sum(read, axis=j), name="total")
    sch = tir.Schedule(te.create_prim_func([data, total], index_dtype_override="int64"))
    (column,) = sch.get_loops(sch.get_block("half"))
    _, lane = sch.split(column, [None, LANES])
    sch.vectorize(lane)
    return sch.mod["main"]


@pytest.mark.parametrize("again", [False, True])
def test_what_may_be_written_over_its_operand_is_computed_once(again: bool) -> None:
    func = move_last_vectors(_of_sums(again=again))
    assert ("T.where" in func.script()) is not again
    data = np.random.default_rng(0).standard_normal((4, 11)).astype("float32")
    total = tvm.nd.array(np.zeros(1, "float32"))
    tvm.build(func, "llvm")(tvm.nd.array(data), total)
    sums = data.sum(0)
    expected = (sums * 0.5 + 1).sum() + (sums.sum() if again else 0)
    assert_close([total.numpy()], [np.array([expected], "float32")], REASSOCIATING)
