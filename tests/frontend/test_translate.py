from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from tvm import relay

from tests.frontend.small_models import model, operator_names, value
from tvm_fusionx.errors import ModelError, UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.frontend.inferred_types import why_not_of_type
from tvm_fusionx.frontend.scope import Scope
from tvm_fusionx.frontend.translate import Translation
from tvm_fusionx.frontend.values import Tensor


def test_a_scope_sees_its_surroundings_and_hides_what_it_redefines() -> None:
    outer = Scope()
    outer["a"], outer["b"] = None, Tensor.from_array(np.zeros(1))
    inner = Scope(outer)
    inner["a"] = Tensor.from_array(np.ones(1))
    assert inner["b"] is outer["b"]
    assert inner["a"] is not outer["a"]
    with pytest.raises(ModelError):
        outer["c"]


def test_names_are_unique() -> None:
    translation = Translation({"": 17})
    made = [translation.unique_name(*pair) for pair in (("a", "Op"), ("a", "Op"), ("", "a"))]
    assert len(set(made)) == 3


def test_a_result_of_another_type_than_onnx_infers_is_refused() -> None:
    tensor = Tensor(relay.var("x", shape=(2, 3)), (2, 3), "float32")
    same = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n"])
    assert why_not_of_type(tensor, same) is None
    shape = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 4])
    assert why_not_of_type(tensor, shape) == ("shape [2, 4]", "[2, 3]")
    rank = helper.make_tensor_type_proto(TensorProto.FLOAT, [2])
    assert why_not_of_type(tensor, rank) == ("shape [2]", "[2, 3]")
    element = helper.make_tensor_type_proto(TensorProto.DOUBLE, [2, 3])
    assert why_not_of_type(tensor, element) == ("element type DOUBLE", "FLOAT")


def test_a_converters_failure_names_the_node() -> None:
    node = helper.make_node("MatMul", ["x", "y"], ["z"], name="product")
    given = model([node], [value("x", [2, 3]), value("y", [4, 5])], ["z"])
    with pytest.raises(UnsupportedOperatorError, match="MatMul node 'product'"):
        from_onnx(given)


def test_narrow_integers_go_no_further_than_their_operators() -> None:
    node = helper.make_node("Relu", ["x"], ["y"], name="act")
    given = model([node], [value("x", [2], TensorProto.INT4)], ["y"], opset=21)
    with pytest.raises(UnsupportedOperatorError, match="found INT4, which only Cast"):
        from_onnx(given)


def test_sparse_weights_are_refused() -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    places = helper.make_tensor("w_places", TensorProto.INT64, [1], [0])
    given = model([helper.make_node("Add", ["x", "w"], ["y"])], [value("x", [2])], ["y"])
    given.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [2]))
    with pytest.raises(UnsupportedOperatorError, match="sparse initializer 'w'"):
        from_onnx(given)


def test_tvms_converters_serve_where_we_have_none() -> None:
    attributes = {"batch_axis": 0, "time_axis": 1}
    node = helper.make_node("ReverseSequence", ["x", "n"], ["y"], name="turn", **attributes)
    infos = [value("x", [2, 3]), value("n", [2], TensorProto.INT64)]
    mod, _ = from_onnx(model([node], infos, ["y"]))
    assert operator_names(mod)[-1] == "reverse_sequence"
    assert {p.name_hint for p in relay.analysis.free_vars(mod["main"].body)} == {"x", "n"}
