"""Boxes as straight lines: divided axes become two, joined ones one, and no place changes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
from tvm import tir

from tvm_fusionx.tir.block import Iter
from tvm_fusionx.tir.concat_boxes import Box
from tvm_fusionx.tir.strided_accesses import StraightBox, straighten

Place = Callable[..., list[Any]]
div, mod = tir.floordiv, tir.floormod

# What is read of a tensor of this shape, from a box (its starts and extents) of the store's axes,
# and the axes that it is.
CASES: dict[str, tuple[tuple[int, ...], Place, tuple[Any, Any], tuple[int, ...]]] = {
    "as it is": ((6, 8), lambda i, j: [i, j], ((0, 0), (6, 8)), (48,)),
    "some columns": ((6, 9), lambda i, j: [i, j + 1], ((0, 0), (6, 8)), (6, 8)),
    "one row": ((6, 8), lambda i, j: [i, j], ((2, 0), (1, 8)), (8,)),
    "a transposition": ((8, 6), lambda i, j: [j, i], ((0, 0), (6, 8)), (6, 8)),
    "planes": ((3, 4, 5), lambda i, j: [j, div(i, 5), mod(i, 5)], ((0, 0), (20, 3)), (20, 3)),
    "planes from a place on": (
        (3, 4, 5),
        lambda i, j: [j, div(i - 10, 5), mod(i - 10, 5)],
        ((10, 0), (20, 3)),
        (20, 3),
    ),
    "numbers of a pixel": (
        (6, 4, 5),
        lambda i, j: [mod(i, 3) * 2 + j, div(i, 15), div(mod(i, 15), 3)],
        ((0, 0), (60, 2)),
        (20, 6),
    ),
    "rounded towards zero": (
        (3, 4, 5),
        lambda i, j: [j, tir.truncdiv(i, 5), tir.truncmod(i, 5)],
        ((0, 0), (20, 3)),
        (20, 3),
    ),
    "every row again": ((4, 8), lambda i, j: [mod(i, 4), j], ((0, 0), (12, 8)), (3, 32)),
    "each twice": ((6, 4), lambda i, j: [i, div(j, 2)], ((0, 0), (6, 8)), (24, 2)),
    "a number": ((1,), lambda i, j: [0 * i], ((0, 0), (6, 8)), (48,)),
}


def _straight(
    name: str, whole: int = 0, shape: tuple[int, int] = (64, 16)
) -> tuple[StraightBox | str, Any, list[Iter], Box]:
    size, place, (starts, extents), _ = CASES[name]
    i, j = (tir.Var(each, "int64") for each in "ij")
    data = tir.decl_buffer(size, "float32", "data")
    result = tir.decl_buffer((starts[0] + extents[0], extents[1]), "float32", "result")
    store = tir.BufferStore(result, tir.BufferLoad(data, place(i, j)) * 2.0, [i, j])
    iters = [Iter(i, shape[0], False), Iter(j, shape[1], False)]
    box = Box(starts, extents)
    return straighten(store, iters, box, whole), store, iters, box


def _places(box: StraightBox) -> set[tuple[int, int]]:
    """Return where each place of the result comes from."""
    found = set()
    for copy in box.copies:
        (read,) = copy.loads
        for place in itertools.product(*map(range, box.extents)):
            at = [tir.const(each, "int32") for each in place]
            found.add((int(copy.store.at(at)), int(read.at(at))))
    return found


def _expected(name: str) -> set[tuple[int, int]]:
    size, place, (starts, extents), _ = CASES[name]
    found = set()
    for i in range(starts[0], starts[0] + extents[0]):
        for j in range(extents[1]):
            read = 0
            indices = place(tir.const(i, "int64"), tir.const(j, "int64"))
            for index, extent in zip(indices, size, strict=True):
                read = read * extent + int(index)
            found.add((i * extents[1] + j, read))
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_place_comes_from_where_it_came(name: str) -> None:
    box, *_ = _straight(name)
    assert isinstance(box, StraightBox), box
    assert box.extents == CASES[name][-1]
    assert _places(box) == _expected(name)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name][2][1][1] <= 3])
def test_inner_axes_may_be_written_out(name: str) -> None:
    box, *_ = _straight(name, whole=1)
    assert isinstance(box, StraightBox), box
    assert len(box.copies) == CASES[name][2][1][1]
    assert _places(box) == _expected(name)


def _why_not(value: Callable[[Any, Any, Any], Any], extents: tuple[int, int] = (6, 8)) -> Any:
    i, j = (tir.Var(each, "int64") for each in "ij")
    data = tir.decl_buffer((math.prod(extents),), "float32", "data")
    result = tir.decl_buffer(extents, "float32", "result")
    store = tir.BufferStore(result, value(data, i, j), [i, j])
    iters = [Iter(i, extents[0], False), Iter(j, extents[1], False)]
    return straighten(store, iters, Box((0, 0), extents), 0)


REFUSED: dict[str, tuple[Callable[[Any, Any, Any], Any], tuple[int, int]]] = {
    "it computes with its place, or tests it": (
        lambda data, i, j: tir.BufferLoad(data, [j]) * tir.Cast("float32", i),
        (6, 8),
    ),
    "it reads where numbers tell it to": (
        lambda data, i, j: tir.BufferLoad(data, [tir.Cast("int64", tir.BufferLoad(data, [j]))]),
        (6, 8),
    ),
    "4 does not divide its 6 places": (
        lambda data, i, j: tir.BufferLoad(data, [div(i, 4) * 8 + j]),
        (6, 8),
    ),
    "its places move by steps that change": (
        lambda data, i, j: tir.BufferLoad(data, [tir.max(i, j)]),
        (6, 8),
    ),
    "it has more elements than 32 bits count": (
        lambda data, i, j: tir.BufferLoad(data, [i * (1 << 16) + j]),
        (1 << 16, 1 << 16),
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_no_straight_line_has_a_reason(reason: str) -> None:
    value, extents = REFUSED[reason]
    assert _why_not(value, extents) == reason


def test_a_test_of_places_that_is_left_is_refused() -> None:
    def value(data: Any, i: Any, j: Any) -> Any:
        return tir.if_then_else(i < 2, tir.BufferLoad(data, [j]), tir.const(0.0, "float32"))

    assert _why_not(value) == "it computes with its place, or tests it"
