"""Building blocks of loop nests."""

from __future__ import annotations

import pytest
from tvm import te, tir

from tvm_fusionx.schedules.parts.nest import (
    Late,
    extent,
    finish,
    own_loops,
    vectorise_loop,
    vectorise_member,
    vectorise_reduction,
    vectorise_spatial,
)

LANES = 8


def _copy(*shape: int) -> tir.Schedule:
    x = te.placeholder(shape, name="x")
    y = te.compute(shape, lambda *indices: x(*indices) + 1.0, name="y")
    return tir.Schedule(te.create_prim_func([x, y]))


@pytest.mark.parametrize(("size", "vector"), [(8, 8), (24, 8), (13, 8), (4, 4), (3, None)])
def test_vector_of_a_loop(size: int, vector: int | None) -> None:
    sch = _copy(size)
    (loop,) = sch.get_loops(sch.get_block("y"))
    inner = vectorise_loop(sch, loop, LANES)
    assert (None if inner is None else extent(sch, inner)) == vector


def test_short_axes_are_fused_before_they_are_vectorised() -> None:
    sch = _copy(6, 4)
    vectorise_spatial(sch, sch.get_loops(sch.get_block("y")), LANES)
    assert extent(sch, sch.get_loops(sch.get_block("y"))[-1]) == LANES


def _halves(rows: int, width: int) -> tir.Schedule:
    x = te.placeholder((rows, 2 * width), name="x")
    y = te.compute((rows, width), lambda row, lane: x[row, lane] + x[row, lane + width], name="y")
    return tir.Schedule(te.create_prim_func([x, y]))


@pytest.mark.parametrize(
    ("sch", "vector"),
    [
        (_halves(6, 4), 4),
        (_halves(6, 8), 8),
        (_halves(6, 2), 8),
        (_copy(6, 4), 8),
        (_copy(1, 4), 4),
    ],
    ids=["a gathered vector", "whole vectors", "too narrow", "in one piece", "one row"],
)
def test_a_member_has_a_vector_for_each_row_where_rows_are_apart(
    sch: tir.Schedule, vector: int
) -> None:
    block = sch.get_block("y")
    vectorise_member(sch, block, sch.get_loops(block), LANES)
    assert extent(sch, sch.get_loops(block)[-1]) == vector


def _sum(*shape: int, axis: int) -> tir.Schedule:
    x = te.placeholder(shape, name="x")
    step = te.reduce_axis((0, shape[axis]), "step")
    kept = tuple(size for position, size in enumerate(shape) if position != axis)

    def term(*indices: tir.Var) -> tir.PrimExpr:
        return x(*indices[:axis], step, *indices[axis:])

    y = te.compute(kept, lambda *indices: te.sum(term(*indices), axis=step), name="y")
    return tir.Schedule(te.create_prim_func([x, y]))


@pytest.mark.parametrize(
    ("shape", "axis", "width"),
    [((9, 5, 6), 1, 6), ((9, 5, 3), 1, None), ((9, 6, 5), 2, None), ((9, 5, 24), 1, LANES)],
    ids=["chunks narrower than a vector", "too narrow", "the row itself is summed", "wide"],
)
def test_vector_of_sums_side_by_side(shape: tuple[int, ...], axis: int, width: int | None) -> None:
    sch = _sum(*shape, axis=axis)
    block = sch.get_block("y")
    late: Late = []
    vectorise_reduction(sch, block, *own_loops(sch, block), LANES, late)
    finish(late)
    last = sch.get(sch.get_loops(sch.get_block("y_update"))[-1])
    is_vector = last.kind == tir.ForKind.VECTORIZED
    assert (int(last.extent) if is_vector else None) == width
