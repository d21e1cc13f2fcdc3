"""Building blocks of loop nests."""

from __future__ import annotations

import pytest
from tvm import te, tir

from tvm_fusionx.schedules.nest import extent, vectorise_loop, vectorise_spatial

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
