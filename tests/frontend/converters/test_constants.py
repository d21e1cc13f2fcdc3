from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.onnx_nodes import run
from tests.frontend.small_models import model, value
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx


def _sum(**attributes: Any) -> Any:
    nodes = [
        helper.make_node("Constant", [], ["c"], name="known", **attributes),
        helper.make_node("Add", ["x", "c"], ["y"]),
    ]
    element = TensorProto.INT64 if "value_int" in str(attributes) else TensorProto.FLOAT
    return model(nodes, [value("x", [2], element)], ["y"])


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"value": numpy_helper.from_array(np.array([1, 2], "float32"))}, [1, 2]),
        ({"value_float": 2.5}, [2.5, 2.5]),
        ({"value_floats": [1.0, 2.5]}, [1, 2.5]),
        ({"value_int": 7}, [7, 7]),
        ({"value_ints": [7, 8]}, [7, 8]),
    ],
)
def test_numbers_in_each_form(attributes: Any, expected: Any) -> None:
    dtype = "int64" if "value_int" in str(attributes) else "float32"
    (found,) = run(_sum(**attributes), {"x": np.zeros(2, dtype)})
    np.testing.assert_array_equal(found, np.array(expected, dtype))


def test_four_bit_constants_keep_their_type() -> None:
    narrow = helper.make_tensor("q", TensorProto.INT4, [2], [-8, 7])
    nodes = [
        helper.make_node("Constant", [], ["q"], value=narrow),
        helper.make_node("DequantizeLinear", ["q", "s"], ["w"]),
        helper.make_node("Add", ["x", "w"], ["y"]),
    ]
    given = model(nodes, [value("x", [2])], ["y"], {"s": np.float32(0.5)}, opset=21)
    (found,) = run(given, {"x": np.zeros(2, "float32")})
    np.testing.assert_array_equal(found, np.array([-4, 3.5], "float32"))


def test_strings_and_sparse_constants_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"'known'.*'value_string'"):
        from_onnx(_sum(value_string="text"))
