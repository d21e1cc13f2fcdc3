from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.fusion.geometry import (
    Rows,
    cuts_channels,
    cuts_columns,
    is_contraction,
    is_movement,
    keeps_rows,
    reduced_axes,
    reduces_each_element_once,
    row_reduction,
)

cube, x = var("cube", 2, 3, 8), var("x", 6, 8)


def _call(expr: relay.Expr) -> object:
    return graph(expr).calls()[-1]


@pytest.mark.parametrize(
    ("arguments", "axes"),
    [
        ({}, (0, 1, 2)),
        ({"axis": 1}, (1,)),
        ({"axis": -1}, (2,)),
        ({"axis": [2, 0]}, (0, 2)),
        ({"axis": [1], "exclude": True}, (0, 2)),
    ],
)
def test_reduced_axes(arguments: dict[str, object], axes: tuple[int, ...]) -> None:
    assert reduced_axes(_call(relay.sum(cube, **arguments))) == axes


ROWS: dict[str, tuple[Callable[[], relay.Expr], Rows | None]] = {
    "innermost axis": (lambda: relay.sum(cube, axis=2), Rows(6, 8)),
    "two innermost axes": (lambda: relay.sum(cube, axis=[1, 2]), Rows(2, 24)),
    "all axes": (lambda: relay.sum(cube), Rows(1, 48)),
    "outer axis": (lambda: relay.sum(cube, axis=0), None),
    "middle axis": (lambda: relay.mean(cube, axis=1), None),
    "outer and innermost": (lambda: relay.max(cube, axis=[0, 2]), None),
    "softmax": (lambda: relay.nn.softmax(cube), Rows(6, 8)),
    "softmax over the middle": (lambda: relay.nn.softmax(cube, axis=1), None),
    "axis of one element inside": (lambda: relay.sum(var("t", 4, 8, 1), axis=1), Rows(4, 8)),
    "axis of one element outside": (
        lambda: relay.sum(var("t", 1, 4, 8), axis=[1, 2]),
        Rows(1, 32),
    ),
    "pool": (lambda: relay.nn.global_avg_pool2d(var("i", 1, 4, 8, 8)), None),
    "dense": (lambda: relay.nn.dense(x, const(3, 8)), None),
    "argmax": (lambda: relay.argmax(x, axis=1), Rows(6, 8)),
    "number": (lambda: relay.sum(var("s")), None),
}


@pytest.mark.parametrize("kind", ROWS)
def test_rows_of_a_reduction(kind: str) -> None:
    make, expected = ROWS[kind]
    assert row_reduction(_call(make())) == expected


KEEPS: dict[str, tuple[Callable[[], relay.Expr], bool]] = {
    "elementwise": (lambda: relay.exp(cube), True),
    "one value a row": (lambda: relay.exp(var("s", 2, 3, 1)), True),
    "reshape of outer axes": (lambda: relay.reshape(cube, (6, 8)), True),
    "reshape that cuts rows": (lambda: relay.reshape(cube, (2, 24)), False),
    "reshape that splits rows": (lambda: relay.reshape(cube, (2, 3, 4, 2)), True),
    "reshape across rows": (lambda: relay.reshape(cube, (3, 16)), False),
    "transpose of outer axes": (lambda: relay.transpose(cube, [1, 0, 2]), True),
    "transpose into rows": (lambda: relay.transpose(cube, [0, 2, 1]), False),
    "transpose of all": (lambda: relay.transpose(cube), False),
    "slice": (lambda: relay.strided_slice(cube, [0, 0, 0], [2, 3, 4]), False),
    "concatenate": (lambda: relay.concatenate([cube, cube], axis=2), False),
    "other size": (lambda: relay.exp(var("o", 5, 8)), False),
}


@pytest.mark.parametrize("kind", KEEPS)
def test_whole_rows(kind: str) -> None:
    make, expected = KEEPS[kind]
    assert keeps_rows(_call(make()), Rows(6, 8)) is expected


def test_kinds_of_calls() -> None:
    dense, transpose = _call(relay.nn.dense(x, const(3, 8))), _call(relay.transpose(x))
    total, pool = _call(relay.sum(x)), _call(relay.nn.max_pool2d(var("i", 1, 1, 8, 8)))
    assert [is_contraction(node) for node in (dense, transpose, total)] == [True, False, False]
    assert [is_movement(node) for node in (dense, transpose, total)] == [False, True, False]
    assert [reduces_each_element_once(node) for node in (dense, total, pool)] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("begin", "end", "strides", "cuts"),
    [
        ([0, 0], [6, 5], [1, 1], True),
        ([0, 1], [6, 8], [1, 1], False),
        ([0, 0], [4, 5], [1, 1], False),
        ([0, 0], [6, 8], [1, 2], False),
    ],
)
def test_cut_columns(begin: list[int], end: list[int], strides: list[int], cuts: bool) -> None:
    assert cuts_columns(_call(relay.strided_slice(x, begin, end, strides))) == cuts


@pytest.mark.parametrize(
    ("begin", "end", "axis", "cuts"),
    [(0, 5, 1, True), (1, 8, 1, False), (0, 5, 2, False), (0, 5, 3, False)],
)
def test_cut_channels(begin: int, end: int, axis: int, cuts: bool) -> None:
    image = var("image", 2, 8, 6, 7)
    call = _call(relay.strided_slice(image, [begin], [end], axes=[axis]))
    assert cuts_channels(call) == cuts
    assert not cuts_channels(_call(relay.strided_slice(x, [0], [5], axes=[1])))


def test_only_a_slice_cuts_columns() -> None:
    assert not cuts_columns(_call(relay.nn.relu(x)))
