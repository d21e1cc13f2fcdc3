from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tvm_fusionx.report.verify.onnx_in_single import inputs_in_single, onnx_in_single

BRAIN = TensorProto.BFLOAT16


def _model(element: int) -> Any:
    """Return a model with the type in every place that can name one."""
    dtype = helper.tensor_dtype_to_np_dtype(element)

    def branch(name: str) -> Any:
        value = numpy_helper.from_array(np.array([0.5], dtype))
        node = helper.make_node("Constant", [], [name], value=value)
        info = helper.make_tensor_value_info(name, element, [1])
        return helper.make_graph([node], name, [], [info])

    branches = {"then_branch": branch("yes"), "else_branch": branch("no")}
    nodes = [
        helper.make_node("If", ["flag"], ["half"], **branches),
        helper.make_node("Mul", ["x", "half"], ["product"]),
        helper.make_node("Add", ["product", "w"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Cast", ["wide"], ["y"], to=element),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info("x", element, [2]),
            helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
        ],
        [helper.make_tensor_value_info("y", element, [2])],
        [numpy_helper.from_array(np.array([1, 2], dtype), "w")],
        value_info=[helper.make_tensor_value_info("product", element, [2])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_the_type_is_replaced_wherever_it_stands() -> None:
    model = _model(BRAIN)
    made = onnx_in_single(model.SerializeToString())
    assert made == _model(TensorProto.FLOAT).SerializeToString()
    onnx.checker.check_model(onnx.load_model_from_string(made), full_check=True)


def test_a_model_without_it_and_what_is_no_model_have_no_such_form() -> None:
    assert onnx_in_single(_model(TensorProto.FLOAT16).SerializeToString()) is None
    assert onnx_in_single(b"no model") is None
    assert onnx_in_single("no/such/file.onnx") is None


def test_inputs() -> None:
    given = {"x": np.ones(2, ml_dtypes.bfloat16), "n": np.ones(1, "int64")}
    found = inputs_in_single(given)
    assert {name: str(array.dtype) for name, array in found.items()} == {
        "x": "float32",
        "n": "int64",
    }
