from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, check, floats, ints

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(4, 5, 6)
TO_THE_END = 2**63 - 1


def cut(starts: object, ends: object, axes: object, steps: object) -> Case:
    return Case("Slice", [X, starts, ends, axes, steps], known=[1, 2, 3, 4])


def test_slices_agree_with_the_reference() -> None:
    check(
        [
            cut(ints(1), ints(3), ints(0), ints(1)),
            cut(ints(0, -4), ints(TO_THE_END, -1), ints(0, 2), ints(2, 1)),
            cut(ints(-1), ints(-(2**63)), ints(1), ints(-1)),
            cut(ints(4), ints(0), ints(-2), ints(-2)),
            cut(ints(2), ints(TO_THE_END), ints(1), ints(1)),
            cut(ints(3), ints(3), ints(1), ints(1)),
        ]
    )


def test_parts_may_be_uneven_or_empty() -> None:
    check(
        [
            Case("Split", [X, ints(1, 4)], {"axis": 1}, known=[1], outputs=2),
            Case("Split", [X, ints(0, 5)], {"axis": 1}, known=[1], outputs=2),
            Case("Split", [X], {"axis": 1, "num_outputs": 2}, outputs=2),
        ]
    )


def test_sums_along_an_axis() -> None:
    axis = ints(1)[0]
    check(
        [
            Case("CumSum", [X, axis], {"exclusive": e, "reverse": r}, known=[1])
            for e in (0, 1)
            for r in (0, 1)
        ]
    )


def test_largest_and_smallest_elements() -> None:
    check(
        [
            Case("TopK", [X, ints(2)], {"largest": largest, "axis": 1}, known=[1], outputs=2)
            for largest in (0, 1)
        ]
    )


def test_selected_slices_and_hot_places() -> None:
    condition = np.array([True, False, True, True])
    values = np.array([-1.0, 2.0], "float32")
    check(
        [
            Case("Compress", [X, condition], {"axis": 0}, known=[1]),
            Case("Compress", [X, condition], known=[1]),
            Case("OneHot", [ints(0, -1, 2), ints(4)[0], values], known=[1, 2]),
            Case("OneHot", [ints(0, -1, 2), ints(4)[0], values], {"axis": 0}, known=[1]),
        ]
    )


def test_products_along_an_axis() -> None:
    check(
        [
            Case("CumProd", [X, np.int64(1)], {"exclusive": e, "reverse": r}, known=[1])
            for e in (0, 1)
            for r in (0, 1)
        ],
        26,
    )
