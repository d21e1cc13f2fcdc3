from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tvm import relay

from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.inferred_types import (
    check_types,
    inferred_types,
    type_proto,
    why_not_of_type,
)
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import Tensor

OPSETS = {"": 17}


def _tensor(*shape: int) -> Tensor:
    return Tensor(relay.var("x", shape=shape), shape, "float32")


def _node(op_type: str, *inputs: Any) -> tuple[Any, Node]:
    names = [f"in{i}" for i in range(len(inputs))]
    proto = helper.make_node(op_type, names, ["y"], name="n")
    return proto, Node("n", op_type, 13, {}, inputs, ["y"], names)


def test_types_follow_from_inputs_and_small_constants() -> None:
    found = inferred_types(*_node("MatMul", _tensor(2, 3), _tensor(3, 4)), OPSETS)["y"]
    assert [dim.dim_value for dim in found.tensor_type.shape.dim] == [2, 4]
    target = Tensor.from_array(np.array([6]))
    found = inferred_types(*_node("Reshape", _tensor(2, 3), target), OPSETS)["y"]
    assert [dim.dim_value for dim in found.tensor_type.shape.dim] == [6]


def test_inputs_that_do_not_suit_are_told_in_onnx_words() -> None:
    with pytest.raises(UnsupportedOperatorError, match=r"MatMul node 'n'.*[Ii]ncompatible dim"):
        inferred_types(*_node("MatMul", _tensor(2, 3), _tensor(4, 5)), OPSETS)


def test_results_are_compared() -> None:
    proto, node = _node("Relu", _tensor(2, 3))
    check_types(proto, node, [_tensor(2, 3)], OPSETS)
    with pytest.raises(UnsupportedOperatorError, match=r"a result of shape \[2, 3\]"):
        check_types(proto, node, [_tensor(3, 2)], OPSETS)


def test_types_of_values() -> None:
    assert type_proto(_tensor(2)).tensor_type.elem_type == TensorProto.FLOAT
    assert type_proto([_tensor(2)]).HasField("sequence_type")
    assert not type_proto(None).HasField("tensor_type")


def test_open_dimensions_fit_any_size() -> None:
    same = helper.make_tensor_type_proto(TensorProto.FLOAT, [2, "n"])
    assert why_not_of_type(_tensor(2, 3), same) is None
