from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X, W = floats(2, 4, 6, 7), floats(6, 4, 3, 2, seed=1)
OFFSET = floats(2, 12, 4, 6, seed=2) * 2


def test_samples_are_taken_where_offsets_point() -> None:
    check(
        [
            Case("DeformConv", [X, W, OFFSET]),
            Case("DeformConv", [X, W, OFFSET, floats(6)]),
            Case("DeformConv", [X, W, OFFSET, None, floats(2, 6, 4, 6, seed=3)]),
            Case("DeformConv", [X, W[:, :2], OFFSET], {"group": 2}),
            Case("DeformConv", [X, W, floats(2, 24, 4, 6)], {"offset_group": 2}),
            Case(
                "DeformConv",
                [X, W, floats(2, 12, 3, 4)],
                {"strides": [2, 2], "pads": [1, 1, 0, 1]},
            ),
            Case("DeformConv", [X, W, floats(2, 12, 2, 5)], {"dilations": [2, 2]}),
        ],
        19,
    )


def test_without_offsets_it_is_a_convolution() -> None:
    shape = (2, 12, 6, 7)
    pads = {"pads": [1, 0, 1, 1]}
    check(
        [
            Case("DeformConv", [X, W, np.zeros(shape, "float32")], pads),
            Case("Conv", [X, W], pads),
        ],
        19,
    )


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ([X, W, OFFSET[:, :10]], {}),
        ([X, W, OFFSET], {"group": 2}),
        ([X, W, OFFSET], {"offset_group": 3}),
        ([X, W, OFFSET, floats(5)], {}),
        ([X, W, OFFSET, None, floats(2, 5, 4, 6)], {}),
    ],
)
def test_operands_that_do_not_fit_are_refused(inputs: Any, attributes: Any) -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"DeformConv node"):
        check([Case("DeformConv", inputs, attributes, expected=[])], 19)
