from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, floats, integers

pytestmark = pytest.mark.slow

A, B = integers("uint8", 3, 16), integers("int8", 16, 5, seed=1)
SA, SB, ZA, ZB = np.float32(0.03), np.float32(0.01), np.uint8(120), np.int8(3)
SCALES = np.linspace(0.005, 0.02, 5, dtype="float32")
ZEROS = np.zeros(5, "int8")


def test_gemm_agrees_with_onnx_runtime() -> None:
    bias = np.arange(-2, 3, dtype="int32") * 100
    full = [np.float32(0.2), np.uint8(100)]
    op = "QGemm"
    check(
        [
            Call(op, [A, SA, ZA, B, SB, ZB]),
            Call(op, [A, SA, ZA, B, SCALES, ZEROS, bias], {"alpha": 0.5}),
            Call(op, [A, SA, ZA, B.T.copy(), SCALES, ZEROS, bias], {"transB": 1}),
            Call(op, [A.T.copy(), SA, ZA, B, SB, ZB, bias.reshape(1, 5)], {"transA": 1}),
            Call(op, [A, SA, ZA, B.T.copy(), SCALES, ZEROS, bias, *full], {"transB": 1}),
            Call(op, [A, SA, ZA, B.view("uint8"), SB, np.uint8(9), None, *full]),
            Call(
                op,
                [A.view("int8"), SA, np.int8(-7), B, SB, np.int8(0), bias, full[0], np.int8(4)],
            ),
        ],
        quanta=1,
    )


def test_integer_products_become_floats_as_in_onnx_runtime() -> None:
    op, bias = "MatMulIntegerToFloat", floats(5)
    batch = integers("uint8", 2, 3, 16)
    check(
        [
            Call(op, [A, B, SA, SB]),
            Call(op, [A, B, SA, SB, ZA, ZB, bias]),
            Call(op, [batch, B, SA, SCALES, ZA, ZEROS], known=[1, 3, 5]),
            Call(op, [A.view("int8"), B, SA, SB, np.int8(-4), ZB]),
            Call(op, [batch, integers("uint8", 2, 16, 5), SA, SB, ZA, np.uint8(9)]),
        ]
    )


def test_sides_quantized_by_their_range_agree_with_onnx_runtime() -> None:
    op, x = "DynamicQuantizeMatMul", floats(3, 16) * 2
    check(
        [
            Call(op, [x, B, SB]),
            Call(op, [x, B, SB, ZB, floats(5)], known=[1, 2, 3, 4]),
            Call(op, [floats(2, 3, 16) + 1, B, SCALES, ZEROS], known=[1, 2, 3]),
            Call(op, [np.zeros((2, 16), "float32"), B, SB, ZB]),
            Call(op, [x, B.view("uint8"), SB, np.uint8(100)]),
        ]
    )


def test_integers_of_16_bits() -> None:
    a, b = integers("int16", 3, 4), integers("int16", 4, 5)
    check([Call("MatMulInteger16", [a, b])])
