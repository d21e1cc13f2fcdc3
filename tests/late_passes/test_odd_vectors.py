"""Vectors of an odd width are taken in pieces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tests.schedules.stored_vectors import stored_widths
from tvm_fusionx.late_passes.odd_vectors import pieces, split_odd_vectors


@pytest.mark.parametrize(
    ("width", "expected"),
    [(12, [(0, 8), (8, 4)]), (16, [(0, 16)]), (13, [(0, 8), (8, 4), (12, 1)])],
)
def test_pieces_are_powers_of_two_that_cover_the_width(
    width: int, expected: list[tuple[int, int]]
) -> None:
    assert pieces(width) == expected


def _vectorised(rows: int, width: int) -> Any:
    """Return a function that squares rows of `width` elements and adds the column; in vectors."""
    x = te.placeholder((rows, width), name="x")
    y = te.compute((rows, width), lambda i, j: x[i, j] * x[i, j] + j.astype("float32"))
    sch = tir.Schedule(te.create_prim_func([x, y]))
    (block,) = sch.get_child_blocks(sch.get_block("root"))
    sch.vectorize(sch.get_loops(block)[-1])
    return sch.mod["main"]


@pytest.mark.parametrize(
    ("width", "lanes", "stored"),
    [
        (12, 8, [8, 4]),
        (12, 4, [8, 4]),
        (13, 8, [8, 4, 1]),
        (6, 8, [6]),
        (12, 16, [12]),
        (16, 8, [16]),
    ],
)
def test_what_no_vector_holds_is_cut_and_nothing_else(
    width: int, lanes: int, stored: list[int]
) -> None:
    found = stored_widths(_vectorised(5, width), split_odd_vectors(lanes))
    assert sorted(found, reverse=True) == stored


@pytest.mark.parametrize("width", [12, 13, 24])
def test_the_pieces_compute_the_same(width: int) -> None:
    config = {"tir.add_lower_pass": [(1, split_odd_vectors(8))]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        library = tvm.build(_vectorised(5, width), "llvm", name="main")
    x = np.arange(5 * width, dtype="float32").reshape(5, width)
    y = tvm.nd.empty(x.shape)
    library["main"](tvm.nd.array(x), y)
    np.testing.assert_array_equal(y.numpy(), x * x + np.arange(width, dtype="float32"))
