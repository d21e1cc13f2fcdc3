"""Boxes between joints: none leaves a test to make, and together they are the whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.tir.block import Iter
from tvm_fusionx.tir.concat_boxes import Box, cut_at_joints

ROWS, COLUMNS = 6, 9
Test = Callable[[Any, Any], Any]

# A test of row i and column j, and where each axis is cut.
TESTS: dict[str, tuple[Test, tuple[list[int], list[int]]]] = {
    "below": (lambda i, j: i < 2, ([2], [])),
    "up to": (lambda i, j: i <= 2, ([3], [])),
    "above": (lambda i, j: i > 2, ([3], [])),
    "from": (lambda i, j: i >= 2, ([2], [])),
    "a number before it": (lambda i, j: tir.const(4, "int32") <= j, ([], [4])),
    "downwards": (lambda i, j: 5 - j >= 0, ([], [6])),
    "downwards, below": (lambda i, j: 5 - j < 0, ([], [6])),
    "one place": (lambda i, j: tir.EQ(j, tir.const(3, "int32")), ([], [3, 4])),
    "all but one place": (lambda i, j: tir.NE(i, tir.const(0, "int32")), ([1], [])),
    "both axes": (lambda i, j: tir.And(i >= 1, j < 8), ([1], [8])),
    "a pad": (lambda i, j: tir.And(j >= 1, j < 8), ([], [1, 8])),
    "outside": (lambda i, j: tir.And(j < 40, i >= -3), ([], [])),
}
LEFT_WHOLE: dict[str, Test] = {
    "of both axes together": lambda i, j: i + j < 4,
    "of every other place": lambda i, j: tir.floormod(j, 2) < 1,
    "in steps of two": lambda i, j: 2 * j < 9,
}


def _value(test: Test, dtype: str = "int32") -> tuple[Any, list[Iter]]:
    i, j = (tir.Var(name, dtype) for name in "ij")
    x, y = (tir.decl_buffer((ROWS, COLUMNS), "float32", name) for name in "xy")
    value = tir.if_then_else(test(i, j), tir.BufferLoad(x, [i, j]), tir.BufferLoad(y, [i, j]))
    return value, [Iter(i, ROWS, False), Iter(j, COLUMNS, False)]


def _ends(boxes: list[Box], axis: int) -> list[int]:
    return sorted({box.starts[axis] for box in boxes} - {0})


@pytest.mark.parametrize("name", TESTS)
def test_axes_are_cut_where_a_test_changes(name: str) -> None:
    test, (rows, columns) = TESTS[name]
    boxes = cut_at_joints(*_value(test))
    assert (_ends(boxes, 0), _ends(boxes, 1)) == (rows, columns)


@pytest.mark.parametrize("name", [*TESTS, *LEFT_WHOLE])
def test_boxes_are_the_whole_once(name: str) -> None:
    test = TESTS[name][0] if name in TESTS else LEFT_WHOLE[name]
    seen = np.zeros((ROWS, COLUMNS), int)
    for box in cut_at_joints(*_value(test)):
        places = [
            slice(start, start + extent)
            for start, extent in zip(box.starts, box.extents, strict=True)
        ]
        seen[tuple(places)] += 1
    assert (seen == 1).all()


@pytest.mark.parametrize("name", TESTS)
def test_a_box_has_one_answer(name: str) -> None:
    test = TESTS[name][0]
    for box in cut_at_joints(*_value(test)):
        runs = [
            range(start, start + extent)
            for start, extent in zip(box.starts, box.extents, strict=True)
        ]
        answers = set()
        for place in itertools.product(*runs):
            answer = test(*(tir.const(at, "int32") for at in place))
            answers.add(bool(tvm.arith.Analyzer().simplify(answer)))
        assert len(answers) == 1


@pytest.mark.parametrize("name", LEFT_WHOLE)
def test_other_tests_cut_nothing(name: str) -> None:
    assert len(cut_at_joints(*_value(LEFT_WHOLE[name]))) == 1


def test_axes_may_stay_whole() -> None:
    test, _ = TESTS["both axes"]
    value, iters = _value(test)
    boxes = cut_at_joints(value, iters, [1])
    assert [(box.starts, box.extents) for box in boxes] == [
        ((0, 0), (1, COLUMNS)),
        ((1, 0), (ROWS - 1, COLUMNS)),
    ]


def test_numbers_that_were_read_cut_nothing() -> None:
    value, iters = _value(lambda i, j: i < 2)
    data = tir.decl_buffer((ROWS, COLUMNS), "int32", "data")
    read = tir.BufferLoad(data, [it.var for it in iters])
    value = tir.Select(read < 3, value, value)
    assert _ends(cut_at_joints(value, iters), 0) == [2]


def test_axes_of_64_bits_are_cut_too() -> None:
    assert _ends(cut_at_joints(*_value(lambda i, j: i < tir.const(2, "int64"), "int64")), 0) == [2]
