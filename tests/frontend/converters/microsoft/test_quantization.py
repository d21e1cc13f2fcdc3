from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, floats, integers

pytestmark = pytest.mark.slow

X = floats(3, 8) * 4
SCALE = np.float32(0.05)
SCALES = np.array([0.1, 0.2, 0.05], "float32")


def four_bits(element: int, *shape: int, seed: int = 0) -> Any:
    low, high = (-8, 8) if element == TensorProto.INT4 else (0, 16)
    numbers = np.random.default_rng(seed).integers(low, high, int(np.prod(shape)))
    return helper.make_tensor("w", element, shape, numbers.tolist())


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16"])
def test_contrib_operators_agree_with_onnx_runtime(dtype: str) -> None:
    zero, zeros = np.asarray(3, dtype), np.arange(3).astype(dtype)
    q = integers(dtype, 3, 8)
    check(
        [
            Call("QuantizeLinear", [X, SCALE, zero]),
            Call("QuantizeLinear", [X, SCALES, zeros], {"axis": 0}),
            Call("DequantizeLinear", [q, SCALE, zero]),
            Call("DequantizeLinear", [q, SCALES, zeros], {"axis": 0}, [0, 1, 2]),
            Call("DequantizeLinear", [q, SCALE]),
        ],
        quanta=1,
    )


@pytest.mark.parametrize("element", [TensorProto.INT4, TensorProto.UINT4])
def test_four_bits_of_either_operator(element: int) -> None:
    zeros = four_bits(element, 3, seed=1)
    w = four_bits(element, 3, 8)
    check(
        [
            Call("DequantizeLinear", [w, SCALES, zeros], {"axis": 0}, [1]),
            Call("DequantizeLinear", [w, SCALES, zeros], {"axis": 0}, [1], domain=""),
            Call("DequantizeLinear", [w, SCALE], {}, [1], domain=""),
        ]
    )
