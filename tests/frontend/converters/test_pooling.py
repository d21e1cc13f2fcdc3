from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(1, 2, 7, 8)


@pytest.mark.parametrize("op_type", ["AveragePool", "MaxPool"])
def test_pools_agree_with_onnxruntime(op_type: str) -> None:
    kernel = {"kernel_shape": [3, 2]}
    cases = [
        Case(op_type, [X], kernel),
        Case(op_type, [X], kernel | {"strides": [2, 2], "pads": [1, 0, 1, 1]}),
        Case(op_type, [X], kernel | {"strides": [2, 3], "ceil_mode": 1}),
        Case(op_type, [X], kernel | {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
        Case(op_type, [X], kernel | {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
        Case(op_type, [X], kernel | {"dilations": [2, 1]}),
        Case(op_type, [floats(1, 2, 9)], {"kernel_shape": [3], "strides": [2]}),
        Case(op_type, [floats(1, 1, 4, 5, 6)], {"kernel_shape": [2, 2, 3]}),
    ]
    check([by_onnxruntime(case) for case in cases])


def test_the_divisor_counts_what_it_should() -> None:
    pads = {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1], "strides": [2, 2]}
    cases = [
        Case("AveragePool", [X], pads | {"count_include_pad": 1}),
        Case("AveragePool", [X], pads | {"count_include_pad": 0}),
        Case("AveragePool", [X], pads | {"count_include_pad": 0, "ceil_mode": 1}),
    ]
    check([by_onnxruntime(case) for case in cases])


def test_rows_added_by_ceil_mode_are_not_counted() -> None:
    """As PyTorch and ONNX Runtime do; the reference evaluator counts them."""
    x = np.arange(1, 6, dtype="float32").reshape(1, 1, 5)
    attributes = {"kernel_shape": [2], "strides": [2], "ceil_mode": 1, "count_include_pad": 1}
    expected = np.array([[[1.5, 3.5, 5.0]]], "float32")
    check([Case("AveragePool", [x], attributes, expected=[expected])])


def test_whole_images_and_norms() -> None:
    check(
        [
            Case("GlobalAveragePool", [X]),
            Case("GlobalMaxPool", [X]),
            Case("GlobalAveragePool", [floats(1, 2, 3)]),
            Case("LpPool", [X], {"kernel_shape": [2, 2], "p": 3}),
            Case("LpPool", [X], {"kernel_shape": [2, 2], "pads": [1, 1, 1, 1]}),
        ]
    )


def test_values_return_to_where_they_came_from() -> None:
    values = np.array([[[[5.0, 6.0], [7.0, 8.0]]]], "float32")
    index = np.array([[[[5, 7], [13, 15]]]], "int64")
    kernel = {"kernel_shape": [2, 2], "strides": [2, 2]}
    expected = np.zeros(16, "float32")
    expected[[5, 7, 13, 15]] = [5.0, 6.0, 7.0, 8.0]
    check([Case("MaxUnpool", [values, index], kernel, expected=[expected.reshape(1, 1, 4, 4)])])


def test_the_indices_of_a_pool_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="Indices output"):
        check([Case("MaxPool", [X], {"kernel_shape": [2, 2]}, outputs=2)])
