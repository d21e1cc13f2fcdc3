from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto

from tests.frontend.onnx_nodes import Case, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx

X = floats(3, 4) * 10


def test_casts_agree_with_the_reference() -> None:
    check(
        [
            Case("Cast", [X], {"to": TensorProto.INT32}),
            Case("Cast", [np.array([0.0, 0.5, -1.0, np.nan], "float32")], {"to": TensorProto.BOOL}),
            Case("Cast", [X.astype("float64")], {"to": TensorProto.FLOAT16}),
            Case("Cast", [X.astype("int64")], {"to": TensorProto.FLOAT}),
            Case("Cast", [X > 0], {"to": TensorProto.INT64}),
            Case("CastLike", [X, np.zeros(1, "int8")]),
        ]
    )


def test_four_bit_integers_are_rounded_and_wrap_around() -> None:
    # What ONNX Runtime makes of these.
    x = np.array([-100.0, -9.0, -8.5, -1.5, -0.5, 0.5, 1.5, 8.6, 100.0], "float32")
    signed = np.array([-4, 7, 7, -2, -1, 1, 2, -7, 4], "int8")
    unsigned = np.array([12, 7, 7, 14, 15, 1, 2, 9, 4], "uint8")
    whole = x.astype("int32")
    wrapped = np.array([-4, 7, -8, -1, 0, 0, 1, -8, 4], "int8")
    check(
        [
            Case("Cast", [x], {"to": TensorProto.INT4}, expected=[signed]),
            Case("Cast", [x], {"to": TensorProto.UINT4}, expected=[unsigned]),
            Case("Cast", [whole], {"to": TensorProto.INT4}, expected=[wrapped]),
            Case("Cast", [whole], {"to": TensorProto.UINT4}, expected=[wrapped.view("uint8") & 15]),
        ]
    )


@pytest.mark.parametrize("element", [TensorProto.FLOAT8E4M3FN, TensorProto.STRING])
def test_types_without_arithmetic_are_refused(element: int) -> None:
    with pytest.raises(UnsupportedOperatorError, match="element type"):
        check([Case("Cast", [X], {"to": element})])


def test_what_the_data_makes_long_may_be_bfloat16() -> None:
    nodes = [
        onnx.helper.make_node("NonZero", ["x"], ["places"]),
        onnx.helper.make_node("Cast", ["places"], ["y"], to=TensorProto.BFLOAT16, name="narrow"),
    ]
    x = onnx.helper.make_tensor_value_info("x", TensorProto.FLOAT, [9])
    y = onnx.helper.make_tensor_value_info("y", TensorProto.BFLOAT16, [1, None])
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", [x], [y]))
    mod, _ = from_onnx(model)
    kind = mod["main"].body.checked_type
    assert kind.dtype == "bfloat16"
    assert isinstance(kind.shape[1], tvm.tir.Any)


def test_bits_are_read_as_a_type_of_the_same_width() -> None:
    cases = [
        Case("BitCast", [X], {"to": TensorProto.INT32}),
        Case("BitCast", [X], {"to": TensorProto.UINT32}, known=[0]),
        Case("BitCast", [X.astype("float16")], {"to": TensorProto.INT16}),
        Case("BitCast", [np.arange(4, dtype="int8")], {"to": TensorProto.UINT8}),
        Case("BitCast", [X > 0], {"to": TensorProto.UINT8}),
        Case("BitCast", [np.float32(1.5)], {"to": TensorProto.INT32}, known=[0]),
    ]
    check(cases, 26)
    with pytest.raises(UnsupportedOperatorError, match="as wide as float32"):
        check([Case("BitCast", [X], {"to": TensorProto.INT64}, expected=[])], 26)


def test_two_bit_integers_are_rounded_and_wrap_around() -> None:
    x = np.array([-9.0, -3.0, -1.6, -0.4, 0.6, 1.4, 2.0, 7.0], "float32")
    signed = np.array([-1, 1, -2, 0, 1, 1, -2, -1], "int8")
    check(
        [
            Case("Cast", [x], {"to": TensorProto.INT2}, expected=[signed]),
            Case("Cast", [x], {"to": TensorProto.UINT2}, expected=[signed.view("uint8") & 3]),
        ],
        25,
    )
