from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    expected_outputs,
    integers,
    translate,
)
from tests.frontend.converters.microsoft.by_onnx_runtime import check as check_with_onnx_runtime
from tests.frontend.onnx_nodes import Case, check, floats, run
from tests.frontend.small_models import model
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx

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


def test_constants_beyond_32_bits_are_quantized_to_the_end_where_they_lie() -> None:
    weights = {"w": np.float32([3, 3e9, -5e9, np.inf]), "s": np.float32(0.5), "z": np.int8(3)}
    node = helper.make_node("QuantizeLinear", ["w", "s", "z"], ["y"])
    mod, _ = from_onnx(model([node], [], ["y"], weights))
    assert mod["main"].body.data.numpy().tolist() == [9, 127, -128, 127]
    halves = {"w": np.float16([6e4]), "s": np.float16(1e-3), "z": np.int8(0)}
    mod, _ = from_onnx(model([node], [], ["y"], halves, opset=19))
    assert mod["main"].body.data.numpy().tolist() == [127]


def test_blocks_along_an_axis() -> None:
    scale = np.abs(floats(2, 3, 2)) + 0.1
    quantized = np.random.default_rng(1).integers(-100, 100, (2, 3, 4)).astype("int8")
    check([Case("DequantizeLinear", [quantized, scale], {"axis": 2, "block_size": 2})])


def four_bits(element: int, *shape: int, seed: int = 0) -> Any:
    low, high = (-8, 8) if element == TensorProto.INT4 else (0, 16)
    numbers = np.random.default_rng(seed).integers(low, high, int(np.prod(shape)))
    return helper.make_tensor("w", element, shape, numbers.tolist())


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("element", [TensorProto.INT4, TensorProto.UINT4])
def test_blocks_of_four_bits_agree_with_onnx_runtime(element: int, axis: int) -> None:
    # Six blocks of sixteen and one of four.
    size = [100, 6] if axis == 0 else [6, 100]
    blocks = [7 if i == axis else 6 for i in range(2)]
    scales, attributes = np.abs(floats(*blocks)) + 0.1, {"axis": axis, "block_size": 16}
    weights, zeros = four_bits(element, *size), four_bits(element, *blocks, seed=1)
    calls = [
        Call("DequantizeLinear", [weights, scales], attributes, [1], domain=""),
        Call("DequantizeLinear", [weights, scales, zeros], attributes, [1], domain=""),
        Call("DequantizeLinear", [weights, scales, zeros], attributes, domain=""),
        Call("DequantizeLinear", [weights, scales.astype("float16")], attributes, domain=""),
    ]
    check_with_onnx_runtime(calls)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "uint16"])
def test_blocks_of_data_agree_with_onnx_runtime(dtype: str) -> None:
    x, scales = floats(6, 40) * 4, np.abs(floats(6, 3)) + 0.1
    zeros, attributes = integers(dtype, 6, 3) // 4, {"axis": -1, "block_size": 16}
    quantized = integers(dtype, 6, 40)
    calls = [
        Call("QuantizeLinear", [x, scales, zeros], attributes, domain=""),
        Call("DequantizeLinear", [quantized, scales, zeros], attributes, domain=""),
        Call("DequantizeLinear", [quantized, scales, zeros], attributes, [0, 1, 2], domain=""),
    ]
    check_with_onnx_runtime(calls, quanta=1)


def test_quantizing_to_four_bits_and_back_agrees_with_onnx_runtime() -> None:
    x, scale = floats(6, 40) * 4, np.float32(0.7)
    node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"])
    back = helper.make_node("DequantizeLinear", ["t", "s", "z"], ["y"])
    move = helper.make_node("Transpose", ["q"], ["t"])
    zero = four_bits(TensorProto.UINT4)
    zero.name = "z"
    weights = [numpy_helper.from_array(scale, "s"), zero]
    infos = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 40])]
    made = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [40, 6])]
    graph = helper.make_graph([node, move, back], "narrow", infos, made, weights)
    opsets = [helper.make_opsetid("", 21)]
    given = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    expected = expected_outputs(given, {"x": x})
    np.testing.assert_allclose(run(given, {"x": x})[0], expected[0], rtol=0, atol=1e-6)


def test_a_scale_without_an_entry_for_each_block_is_refused() -> None:
    call = Call(
        "DequantizeLinear",
        [four_bits(TensorProto.INT4, 64, 6), np.ones((3, 6), "float32")],
        {"axis": 0, "block_size": 16},
        domain="",
    )
    with pytest.raises(UnsupportedOperatorError, match=r"a scale of \[4, 6\] .*found \[3, 6\]"):
        translate(call)


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


def test_halves_of_scales_round_no_sum() -> None:
    """Halves lie 32 apart at 40,000: 40,015 / 160.375 is 249.51, and 40,000 / 160.375 is 249.41."""
    a, b = np.array([[200, 1]], "uint8"), np.array([[200], [15]], "uint8")
    scale, zero = np.float16(1), np.uint8(0)
    inputs = [a, scale, zero, b, scale, zero, np.float16(160.375), zero]
    check([Case("QLinearMatMul", inputs, expected=[np.array([[250]], "uint8")])])


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
