from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, integers

pytestmark = pytest.mark.slow

SX, SY, ZX, ZY = np.float32(0.03), np.float32(0.021), np.uint8(120), np.uint8(131)


def last(x: Any) -> Any:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def test_convolutions_agree_with_onnx_runtime() -> None:
    op, x = "QLinearConv", integers("uint8", 1, 4, 7, 6)
    weights = integers("int8", 8, 4, 3, 3, seed=1)
    scales = np.linspace(0.005, 0.02, 8, dtype="float32")
    zeros, bias = np.zeros(8, "int8"), integers("int8", 8, seed=2).astype("int32") * 10
    rest = [weights, scales, zeros, np.float32(0.5), ZY]
    depthwise = [integers("int8", 4, 1, 3, 3), scales[:4], zeros[:4], np.float32(0.3), ZY]
    known = list(range(1, 9))
    check(
        [
            Call(op, [x, SX, ZX, *rest], {}, known),
            Call(op, [x, SX, ZX, *rest, bias], {"pads": [1, 1, 1, 1]}, known),
            Call(op, [last(x), SX, ZX, *rest, bias], {"channels_last": 1}, known),
            Call(
                op,
                [last(x), SX, ZX, *depthwise],
                {"channels_last": 1, "group": 4, "strides": [2, 2], "pads": [0, 1, 1, 0]},
                known,
            ),
        ],
        quanta=1,
    )


def test_signed_weights_of_one_scale() -> None:
    x = integers("int8", 1, 4, 7, 6)
    weights = integers("int8", 8, 4, 3, 3, seed=1)
    rest = [weights, np.float32(0.01), np.int8(0), np.float32(0.5), np.int8(-4)]
    check(
        [Call("QLinearConv", [last(x), SX, np.int8(5), *rest], {"channels_last": 1}, range(1, 8))],
        quanta=1,
    )


@pytest.mark.parametrize("is_last", [0, 1])
def test_pools_agree_with_onnx_runtime(is_last: int) -> None:
    x = integers("uint8", 1, 5, 9, 7)
    x = last(x) if is_last else x
    window = {"kernel_shape": [3, 3], "channels_last": is_last}
    scales = [SX, ZX, SY, ZY]
    check(
        [
            Call("QLinearAveragePool", [x, *scales], window),
            Call("QLinearAveragePool", [x, *scales], {**window, "pads": [1, 1, 1, 1]}),
            Call(
                "QLinearAveragePool",
                [x, *scales],
                {**window, "pads": [1, 1, 1, 1], "count_include_pad": 1, "strides": [2, 2]},
            ),
            Call(
                "QLinearAveragePool",
                [x.astype("int8"), SX, np.int8(3), SY, np.int8(-9)],
                {**window, "ceil_mode": 1, "strides": [2, 2]},
            ),
            Call("QLinearAveragePool", [x, *scales], {**window, "auto_pad": "VALID"}),
            Call("QLinearGlobalAveragePool", [x, *scales], {"channels_last": is_last}),
            Call(
                "QLinearGlobalAveragePool",
                [x.astype("int8"), SX, np.int8(3), SY, np.int8(-9)],
                {"channels_last": is_last},
            ),
        ],
        quanta=1,
    )
