from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.ecg import Attributes, Graph, Node, TensorType
from tvm_fusionx.ecg.node import CONSTANT, INPUT, NO_ATTRIBUTES
from tvm_fusionx.ecg.relay_types import infer_types

SQUARE = TensorType((4, 4), "float32")


def test_attributes_are_equal_by_value_whatever_their_order_and_origin() -> None:
    first = Attributes({"axis": 1, "keep": True}, origin=object())
    second = Attributes({"keep": True, "axis": 1})
    assert first == second
    assert hash(first) == hash(second)
    assert first != Attributes({"axis": 2, "keep": True})


def test_changed_attributes_forget_their_origin() -> None:
    first = Attributes({"axis": 1, "keep": True}, origin=object())
    changed = first.replace(axis=0)
    assert dict(changed) == {"axis": 0, "keep": True}
    assert changed.origin is None
    assert first["axis"] == 1


def _node(op: str, *outputs: TensorType, returns_tuple: bool = False) -> Node:
    return Node(7, op, NO_ATTRIBUTES, (), (), outputs, returns_tuple=returns_tuple)


def test_a_node_gives_a_value_for_each_result() -> None:
    node = _node("split", SQUARE, SQUARE, returns_tuple=True)
    assert list(node) == [node[0], node[1]]
    assert (node[1].node, node[1].index, node[1].shape, node[1].dtype) == (
        node,
        1,
        (4, 4),
        "float32",
    )
    assert node.bytes_out == 2 * 64


def test_only_operators_are_calls() -> None:
    kinds = [_node(op, SQUARE).is_call for op in (INPUT, CONSTANT, "exp")]
    assert kinds == [False, False, True]


def test_only_a_constant_has_an_array() -> None:
    graph = Graph(infer_types)
    constant = graph.constant(np.ones(3, "float32"))
    assert constant.is_constant
    assert constant.array.sum() == 3
    with pytest.raises(AssertionError):
        _ = graph.input("x", SQUARE).array


def test_nodes_and_values_print_as_one_line() -> None:
    graph = Graph(infer_types)
    x = graph.input("x", SQUARE)
    assert repr(graph.call("exp", [x]).node) == "%2 = exp(%1) : float32[4, 4]"
    split = graph.call_node("split", [x], outputs=(SQUARE, SQUARE), returns_tuple=True)
    assert repr(split[1]) == "%3.1"
