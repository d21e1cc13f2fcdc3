from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvm_fusionx as fx
from tests.data_models import assert_agrees, branching, floats, looping, made
from tests.frontend.small_models import value
from tvm_fusionx.ecg.block_calls import STEERS
from tvm_fusionx.errors import UnsupportedOperatorError


def test_a_branch_returns_the_shape_that_the_data_chose() -> None:
    program = assert_agrees(
        branching(), {"x": np.array([1, 2, 3, 4], "float32")}, {"x": floats(4) - 9}
    )
    assert [output.dims for output in program.outputs] == [(None,)]


def test_what_branches_compute_is_a_static_function_of_its_own() -> None:
    mod, _ = fx.from_onnx(branching())
    static = [
        name.name_hint
        for name, func in mod.functions.items()
        if STEERS not in (func.attrs or {}) and name.name_hint != "main"
    ]
    assert sorted(static) == ["fusionx_choose_else", "fusionx_choose_then"]


def test_a_loop_ends_when_the_data_says_and_collects() -> None:
    near = {"x": np.array([1, 2, 3, 4], "float32")}
    at_once = {"x": np.full(4, 1e6, "float32")}
    program = assert_agrees(looping(), near, at_once)
    assert [output.dims for output in program.outputs] == [(4,), (None,)]


def _counting(grows: bool) -> Any:
    """Return a loop of as many iterations as x has positive elements, with an outer value."""
    node = (
        helper.make_node("Concat", ["a", "row"], ["b"], axis=0)
        if grows
        else helper.make_node("Add", ["a", "row"], ["b"])
    )
    body = helper.make_graph(
        [node, helper.make_node("Identity", ["on"], ["more"])],
        "body",
        [
            helper.make_tensor_value_info("step", TensorProto.INT64, []),
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            value("a", None),
        ],
        [helper.make_tensor_value_info("more", TensorProto.BOOL, []), value("b", None)],
    )
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["square"]),
        helper.make_node("Reshape", ["square", "two_axes"], ["row"]),
        helper.make_node("Greater", ["x", "zero"], ["flags"]),
        helper.make_node("Cast", ["flags"], ["whole"], to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["whole"], ["count"], keepdims=0),
        helper.make_node("Loop", ["count", "", "row"], ["y"], "count_up", body=body),
    ]
    weights = {"zero": np.float32(0), "two_axes": np.array([1, 6])}
    return made(nodes, {"x": floats(6)}, ["y"], weights)


@pytest.mark.parametrize("grows", [False, True], ids=["same shape", "longer each time"])
def test_a_loop_runs_as_often_as_the_data_says(grows: bool) -> None:
    assert_agrees(_counting(grows), {"x": floats(6)}, {"x": -np.abs(floats(6))})


def test_a_flag_may_be_an_input() -> None:
    given = branching()
    given.graph.input.append(value("flag", [], TensorProto.BOOL))
    given.graph.node[3].input[0] = "flag"
    assert_agrees(given, *({"x": floats(4), "flag": np.array(each)} for each in (True, False)))


def test_branches_of_different_ranks_are_refused() -> None:
    given = branching()
    (graph,) = [a.g for a in given.graph.node[3].attribute if a.name == "then_branch"]
    graph.node[0].CopyFrom(helper.make_node("Unsqueeze", ["a", "axes"], ["t"]))
    graph.initializer.append(helper.make_tensor("axes", TensorProto.INT64, [1], [0]))
    with pytest.raises(UnsupportedOperatorError, match="as many axes either way"):
        fx.from_onnx(given)


def test_a_loop_that_carries_a_sequence_by_data_is_refused() -> None:
    given = _counting(grows=False)
    given.graph.node.insert(5, helper.make_node("SequenceConstruct", ["row"], ["items"]))
    given.graph.node[6].input[2] = "items"
    with pytest.raises(UnsupportedOperatorError, match="that are tensors"):
        fx.from_onnx(given)
