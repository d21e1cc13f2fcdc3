from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx_nodes import run
from tests.frontend.small_models import model, value
from tvm_fusionx.errors import ModelError
from tvm_fusionx.frontend.sort_nodes import sort_model

X = value("x", [2])


def _chain(*pairs: tuple[str, str]) -> Any:
    return model(
        [helper.make_node("Relu", [a], [b], name=b) for a, b in pairs], [X], [pairs[-1][1]]
    )


def _names(given: Any) -> list[str]:
    return [node.output[0] for node in given.graph.node]


def test_a_sorted_model_is_returned_as_it_is() -> None:
    given = _chain(("x", "a"), ("a", "b"))
    assert sort_model(given, "m") is given


def test_nodes_are_put_in_order_in_a_copy() -> None:
    given = _chain(("b", "c"), ("a", "b"), ("x", "a"), ("c", "d"))
    found = sort_model(given, "m")
    assert _names(found) == ["a", "b", "c", "d"]
    assert _names(given) == ["c", "b", "a", "d"]


def test_any_order_gives_the_same_numbers() -> None:
    nodes = [
        helper.make_node("Neg", ["x"], ["a"]),
        helper.make_node("Mul", ["a", "x"], ["b"]),
        helper.make_node("Sub", ["b", "a"], ["c"]),
        helper.make_node("Add", ["c", "b"], ["y"]),
    ]
    x = np.array([1.0, -2.0], "float32")
    for seed in range(3):
        random.Random(seed).shuffle(nodes)
        (found,) = run(model(nodes, [X], ["y"]), {"x": x})
        np.testing.assert_allclose(found, -x * x + x - x * x)


def test_what_a_subgraph_reads_comes_first() -> None:
    inner = helper.make_graph(
        [
            helper.make_node("Neg", ["late"], ["later"]),
            helper.make_node("Relu", ["a"], ["late"]),
        ],
        "inner",
        [],
        [helper.make_empty_tensor_value_info("later")],
    )
    nodes = [
        helper.make_node("If", ["f"], ["y"], then_branch=inner, else_branch=inner),
        helper.make_node("Neg", ["x"], ["a"]),
    ]
    given = model(nodes, [X, value("f", [], TensorProto.BOOL)], ["y"])
    found = sort_model(given, "m")
    assert _names(found) == ["a", "y"]
    assert [n.op_type for n in found.graph.node[1].attribute[0].g.node] == ["Relu", "Neg"]
    assert [n.op_type for n in given.graph.node[0].attribute[0].g.node] == ["Neg", "Relu"]


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ([("b", "a"), ("a", "b")], r"Relu node 'a' in m: .*wait for one another"),
        ([("x", "a"), ("gone", "b")], r"Relu node 'b' in m: .*'gone', which nothing makes"),
        ([("x", "a"), ("x", "a")], r"Relu node 'a' in m: .*'a', which is there already"),
        ([("x", "x")], "'x', which is there already"),
    ],
)
def test_graphs_without_an_order(pairs: list[tuple[str, str]], match: str) -> None:
    with pytest.raises(ModelError, match=match):
        sort_model(_chain(*pairs), "m")


def test_an_output_that_nothing_makes() -> None:
    given = _chain(("x", "a"))
    given.graph.output[0].name = "other"
    with pytest.raises(ModelError, match="output 'other', which nothing makes"):
        sort_model(given, "m")
    inner = helper.make_graph([], "inner", [], [helper.make_empty_tensor_value_info("none")])
    node = helper.make_node("If", ["f"], ["y"], then_branch=inner, else_branch=inner)
    given = model([node], [X, value("f", [], TensorProto.BOOL)], ["y"])
    with pytest.raises(ModelError, match="'none', which nothing makes"):
        sort_model(given, "m")


def test_long_graphs_take_no_stack() -> None:
    count = 3000
    pairs = [(f"v{i}" if i else "x", f"v{i + 1}") for i in range(count)]
    found = sort_model(_chain(*pairs[::-1]), "m")
    assert _names(found) == [made for _, made in pairs]


def test_a_node_without_a_name_is_called_by_its_result() -> None:
    nodes = [helper.make_node("Relu", ["b"], ["a"]), helper.make_node("Add", ["x", "a"], ["b"])]
    with pytest.raises(ModelError, match="Relu node 'a' in m"):
        sort_model(model(nodes, [X], ["b"]), "m")
