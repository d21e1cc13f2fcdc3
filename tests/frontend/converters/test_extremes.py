from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(3, 4, 5)


def _with_nan(*shape: int, share: float = 0.3) -> Any:
    rng = np.random.default_rng(1)
    x = rng.integers(-4, 5, shape).astype("float32")
    x[rng.random(shape) < share] = np.nan
    return x


NAN = _with_nan(6, 9)


def test_indices_agree_with_the_reference() -> None:
    check(
        [
            Case(op_type, [x], attributes)
            for op_type in ("ArgMax", "ArgMin")
            for x in (X, (X * 9).astype("int32"))
            for attributes in ({"axis": 1}, {"axis": -1, "keepdims": 0}, {"select_last_index": 1})
        ]
    )


@pytest.mark.parametrize("op_type", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_a_nan_is_never_beyond_and_never_passed(op_type: str, last: int) -> None:
    cases = [
        Case(op_type, [x], {"axis": axis, "keepdims": keepdims, "select_last_index": last})
        for x in (NAN, _with_nan(5, 40, share=0.6), NAN.astype("float64"))
        for axis in (0, 1)
        for keepdims in (0, 1)
    ]
    check([by_onnxruntime(case) for case in cases])


def test_rows_of_infinities_have_an_index() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, np.inf], [-np.inf, np.nan]], "float32")
    check([by_onnxruntime(Case(op, [x], {"axis": 1})) for op in ("ArgMax", "ArgMin")])


def test_extremes_of_several_operands() -> None:
    others = [NAN[::-1].copy(), floats(9), np.array(0.5, "float32")]
    cases = [
        Case(op_type, operands, known=known)
        for op_type in ("Max", "Min")
        for operands, known in (
            ([NAN, others[0]], []),
            ([NAN, *others], []),
            ([NAN, others[2]], [1]),
            ([others[1], NAN, others[0]], [0]),
            ([NAN, others[0]], [1]),
            ([NAN], []),
        )
    ]
    check([by_onnxruntime(case) for case in cases])


def test_extremes_of_integers() -> None:
    x, y = (X * 9).astype("int32"), (X[::-1] * 9).astype("int32")
    check([Case(op_type, [x, y, y - x]) for op_type in ("Max", "Min")])
