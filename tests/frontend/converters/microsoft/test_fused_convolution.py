from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    check,
    floats,
    integers,
    model_of,
)
from tests.frontend.onnx_nodes import run
from tvm_fusionx.frontend.converters.microsoft.fused_convolution import (
    channels_first,
    channels_last,
)
from tvm_fusionx.frontend.values import Tensor

pytestmark = pytest.mark.slow

X, W, B, Z = floats(1, 4, 7, 7), floats(6, 4, 3, 3, seed=1), floats(6, seed=2), floats(1, 6, 7, 7)


def test_convolutions_agree_with_onnx_runtime() -> None:
    same = {"pads": [1, 1, 1, 1]}
    check(
        [
            Call("FusedConv", [X, W]),
            Call("FusedConv", [X, W, B], {**same, "activation": "Relu"}),
            Call("FusedConv", [X, W, B, Z], {**same, "activation": "Relu"}, known=[1, 2]),
            Call("FusedConv", [X, W, None, Z], same, known=[1]),
            Call("FusedConv", [X, floats(6, 2, 3, 3), B], {"group": 2, "strides": [2, 2]}),
            Call("FusedConv", [X, W], {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
            Call("FusedConv", [X, W], {"dilations": [2, 2], "kernel_shape": [3, 3]}),
            Call("FusedConv", [floats(1, 4, 9), floats(6, 4, 3)], {"activation": "Tanh"}, [1]),
        ]
    )


def test_channels_last_pools_agree_with_onnx_runtime() -> None:
    window = {"kernel_shape": [3, 3], "strides": [2, 2]}
    x = integers("uint8", 1, 8, 7, 5)
    check(
        [
            Call("NhwcMaxPool", [x], window),
            Call("NhwcMaxPool", [x.astype("int8")], {**window, "pads": [1, 1, 1, 1]}),
            Call("NhwcMaxPool", [x], {**window, "ceil_mode": 1}),
        ]
    )


def test_channels_last_convolutions_are_those_with_channels_first() -> None:
    """ONNX Runtime has no CPU kernel for them in float32: the reference is FusedConv."""
    attributes = {"pads": [1, 1, 1, 1], "activation": "Relu"}
    model, feeds = model_of(
        [
            Call("FusedConv", [X, W, B, Z], attributes),
            Call(
                "NhwcFusedConv",
                [X.transpose(0, 2, 3, 1), W, B, Z.transpose(0, 2, 3, 1)],
                attributes,
            ),
        ]
    )
    first, last = run(model, feeds)
    np.testing.assert_allclose(last.transpose(0, 3, 1, 2), first, rtol=0, atol=1e-5)


def test_axes_move_there_and_back() -> None:
    tensor = Tensor.from_array(floats(2, 5, 6, 3))
    moved = channels_first(tensor)
    assert moved.shape == (2, 3, 5, 6)
    # Two transposes become one, and that one does nothing.
    assert channels_last(moved.expr, 4).same_as(tensor.expr)
