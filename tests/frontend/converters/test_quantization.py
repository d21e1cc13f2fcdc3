from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

from tests.frontend.onnx_nodes import Case, check, floats

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(2, 3, 4) * 4
SCALE, ZERO = np.float32(0.05), np.uint8(120)
SCALES, ZEROS = np.array([0.1, 0.2, 0.05], "float32"), np.array([0, 5, -3], "int8")


def test_quantization_agrees_with_the_reference() -> None:
    wide = np.random.default_rng(1).integers(0, 255, (2, 3, 4)).astype("uint8")
    check(
        [
            Case("QuantizeLinear", [X, SCALE, ZERO]),
            Case("QuantizeLinear", [X, SCALES, ZEROS], {"axis": 1}),
            Case("QuantizeLinear", [X, SCALE]),
            Case("DequantizeLinear", [wide, SCALE, ZERO]),
            Case("DequantizeLinear", [wide.astype("int8"), SCALES, ZEROS], {"axis": 1}),
        ]
    )


def test_blocks_along_an_axis() -> None:
    scale = np.abs(floats(2, 3, 2)) + 0.1
    quantized = np.random.default_rng(1).integers(-100, 100, (2, 3, 4)).astype("int8")
    check([Case("DequantizeLinear", [quantized, scale], {"axis": 2, "block_size": 2})])


def test_integer_products_agree_with_the_reference() -> None:
    generator = np.random.default_rng(2)
    a = generator.integers(0, 255, (3, 4)).astype("uint8")
    b = generator.integers(0, 255, (4, 2)).astype("uint8")
    image = generator.integers(0, 255, (1, 2, 5, 5)).astype("uint8")
    kernel = generator.integers(0, 255, (3, 2, 3, 3)).astype("uint8")
    check(
        [
            Case("MatMulInteger", [a, b, np.uint8(12), np.uint8(0)]),
            Case("ConvInteger", [image, kernel, np.uint8(3)], {"pads": [1, 1, 1, 1]}),
        ]
    )


def test_results_saturate() -> None:
    """The reference evaluator wraps around instead; ONNX's definition and ONNX Runtime saturate."""
    a = np.array([[100, 100]], "int8")
    scale, zero = np.float32(0.1), np.int8(0)
    inputs = [a, scale, zero, a.T.copy(), scale, zero, scale, zero]
    expected = np.array([[127]], "int8")
    check([Case("QLinearMatMul", inputs, expected=[expected])])


def test_halves_are_rounded_to_the_even_number() -> None:
    x = np.array([-2.5, -1.5, 0.5, 1.5], "float32")
    expected = np.array([-2, -2, 0, 2], "int8")
    check([Case("QuantizeLinear", [x, np.float32(1), np.int8(0)], expected=[expected])])


def test_the_dequantized_type_may_be_given() -> None:
    q = np.arange(-6, 6, dtype="int8").reshape(3, 4)
    scale = np.array(0.5, "float32")
    half = {"output_dtype": TensorProto.FLOAT16}
    check(
        [
            Case("DequantizeLinear", [q, scale], half, expected=[(q * 0.5).astype("float16")]),
            Case("DequantizeLinear", [q, scale, np.int8(1)], expected=[((q - 1) * scale)]),
        ],
        25,
    )
