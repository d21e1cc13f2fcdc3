"""The loops of pieces: every place is written once asked for, whatever the tasks and lanes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from tvm import tir

from tests.schedules.stored_vectors import stored_widths
from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules.rows.moves_kernel import Lane, Piece, build_moves, indices_of
from tvm_fusionx.tir.strided_accesses import Copy, Line

# Rows, what a vector runs along, and places inside, all of the result in the order of memory.
SHAPES = {
    "planes into numbers": ((), 37, (3,)),
    "rows": ((5,), 20, ()),
    "rows of planes": ((2, 3), 9, (2, 2)),
    "one vector": ((), 16, (4,)),
    "shorter than a vector": ((3,), 5, (2,)),
    "single numbers": ((7,), 1, (3,)),
}


def _piece(name: str, result: Any, first: int) -> tuple[Piece, Any, np.ndarray]:
    """Return what puts a tensor ``[rows, inside, along]`` as ``[rows, along, inside]``."""
    rows, length, inside = SHAPES[name]
    number, total = math.prod(inside), math.prod((*rows, length, *inside))
    data = tir.decl_buffer((total,), "float32", f"data{first}")
    outer = [number * length * math.prod(rows[place + 1 :]) for place in range(len(rows))]
    inner = [math.prod(inside[place + 1 :]) for place in range(len(inside))]
    store = Line(result, first, (*outer, number, *inner))
    load = Line(data, 0, (*outer, 1, *(step * length for step in inner)))
    read = tir.BufferLoad(data, [tir.const(0, "int32")])
    copy = Copy(read * tir.const(2.0, "float32"), (load,), store)
    lanes = tuple(Lane(copy, indices_of(place, inside)) for place in range(number))
    values = np.arange(total, dtype="float32").reshape(math.prod(rows), number, length)
    return Piece(rows, length, lanes), data, values


@pytest.mark.parametrize("tasks", [1, 2, 3])
@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("names", [(name,) for name in SHAPES] + [tuple(SHAPES)])
def test_every_place_is_written(names: tuple[str, ...], lanes: int, tasks: int) -> None:
    totals = [
        math.prod((*rows, length, *inside)) for rows, length, inside in map(SHAPES.get, names)
    ]
    result = tir.decl_buffer((sum(totals),), "float32", "result")
    firsts = [sum(totals[:place]) for place in range(len(totals))]
    made = [_piece(name, result, first) for name, first in zip(names, firsts, strict=True)]
    stmt = build_moves([piece for piece, _, _ in made], lanes, tasks)
    func = tir.PrimFunc([data for _, data, _ in made] + [result], stmt)
    given = [values.reshape(-1) for _, _, values in made]
    expected = [2 * values.transpose(0, 2, 1).reshape(-1) for _, _, values in made]
    assert_kernel(func, "llvm", given, [np.concatenate(expected)], 0)


@pytest.mark.parametrize(
    ("name", "lanes", "widths"),
    [
        ("planes into numbers", 16, {16}),
        ("rows", 16, {16}),
        ("rows", 8, {8}),
        # The widest power of two that is no longer than the piece.
        ("shorter than a vector", 16, {4}),
    ],
)
def test_whole_vectors_are_written(name: str, lanes: int, widths: set[int]) -> None:
    rows, length, inside = SHAPES[name]
    result = tir.decl_buffer((math.prod((*rows, length, *inside)),), "float32", "result")
    piece, data, _ = _piece(name, result, 0)
    func = tir.PrimFunc([data, result], build_moves([piece], lanes, 1))
    assert set(stored_widths(func)) == widths


def test_places_have_an_index_along_each_axis() -> None:
    assert indices_of(0, ()) == ()
    assert [indices_of(place, (2, 3)) for place in (0, 2, 3, 5)] == [(0, 0), (0, 2), (1, 0), (1, 2)]


@pytest.mark.parametrize("tasks", [1, 2])
@pytest.mark.parametrize("lanes", [1, 4, 16])
@pytest.mark.parametrize("length", [1, 5, 37])
def test_what_lies_together_is_taken_apart(length: int, lanes: int, tasks: int) -> None:
    """Colours of pixels become planes, each with a factor of its own."""
    rows, colours = 2, 3
    total = rows * length * colours
    data = tir.decl_buffer((total,), "float32", "data")
    factors = tir.decl_buffer((colours,), "float32", "factors")
    result = tir.decl_buffer((total,), "float32", "result")
    # Axes: rows, pixels, colours.
    read = Line(data, 0, (length * colours, colours, 1))
    factor = Line(factors, 0, (0, 0, 1))
    value = tir.BufferLoad(data, [tir.const(0, "int32")]) * tir.BufferLoad(
        factors, [tir.const(1, "int32")]
    )
    copy = Copy(value, (read, factor), Line(result, 0, (length * colours, 1, length)))
    each = tuple(Lane(copy, (colour,)) for colour in range(colours))
    stmt = build_moves([Piece((rows,), length, each, parted=(0,))], lanes, tasks)
    values = np.arange(total, dtype="float32").reshape(rows, length, colours)
    scales = np.arange(1, 1 + colours, dtype="float32")
    func = tir.PrimFunc([data, factors, result], stmt)
    expected = (values * scales).transpose(0, 2, 1).reshape(-1)
    assert_kernel(func, "llvm", [values.reshape(-1), scales], [expected], 0)


@pytest.mark.parametrize(("name", "shared"), [("rows", 10), ("rows of planes", 2)])
def test_few_rows_are_shared_with_their_vectors(name: str, shared: int) -> None:
    """Five rows are no equal shares of two cores: their vectors are counted with them."""
    rows, length, inside = SHAPES[name]
    result = tir.decl_buffer((math.prod((*rows, length, *inside)),), "float32", "result")
    piece, _, _ = _piece(name, result, 0)
    task = build_moves([piece], 16, 2)
    assert task.kind == tir.ForKind.PARALLEL
    assert int(task.body.extent) == shared // 2
