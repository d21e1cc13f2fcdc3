from __future__ import annotations

import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(1, 4, 7, 6)


def test_convolutions_agree_with_the_reference() -> None:
    check(
        [
            Case("Conv", [X, floats(3, 4, 3, 3, seed=1), floats(3, seed=2)]),
            Case("Conv", [X, floats(4, 1, 3, 3, seed=1)], {"group": 4, "pads": [1, 0, 2, 1]}),
            Case("Conv", [X, floats(2, 4, 3, 2, seed=1)], {"strides": [2, 1], "dilations": [1, 2]}),
            Case(
                "Conv",
                [X, floats(2, 4, 3, 3, seed=1)],
                {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            ),
            Case("Conv", [X, floats(2, 4, 2, 2, seed=1)], {"auto_pad": "SAME_LOWER"}),
            Case("Conv", [floats(1, 2, 9), floats(3, 2, 4, seed=1)], {"pads": [1, 2]}),
            Case("Conv", [floats(1, 2, 4, 5, 3), floats(2, 2, 2, 3, 1, seed=1)]),
        ]
    )


def test_transposed_convolutions_agree_with_the_reference() -> None:
    weights = floats(4, 2, 3, 3, seed=1)
    check(
        [
            Case("ConvTranspose", [X, weights, floats(2, seed=2)], {"strides": [2, 2]}),
            Case("ConvTranspose", [X, weights], {"pads": [1, 0, 1, 2], "strides": [2, 1]}),
            Case("ConvTranspose", [X, weights], {"dilations": [2, 2]}),
            Case("ConvTranspose", [X, weights], {"output_padding": [1, 1], "strides": [2, 2]}),
            Case("ConvTranspose", [X, weights], {"output_shape": [15, 13], "strides": [2, 2]}),
            Case("ConvTranspose", [X, weights], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
            Case("ConvTranspose", [X, weights], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
            by_onnxruntime(Case("ConvTranspose", [X, floats(4, 1, 3, 3, seed=1)], {"group": 2})),
            by_onnxruntime(
                Case("ConvTranspose", [floats(1, 4, 5), floats(4, 1, 3, seed=1)], {"group": 2})
            ),
            Case("ConvTranspose", [floats(1, 4, 5), floats(4, 2, 3, seed=1)], {"strides": [2]}),
        ]
    )


def test_more_than_three_spatial_axes_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="one to three spatial axes"):
        check([Case("Conv", [floats(1, 1, 2, 2, 2, 2), floats(1, 1, 1, 1, 1, 1)], expected=[])])
