from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx_nodes import run
from tests.frontend.small_models import model, operator_names, value
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.passes.outline_static import needs_run_time

BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64
X = value("x", [2])


def _branch(name: str, *nodes: Any) -> Any:
    return helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(name)])


def _if(yes: Any, no: Any, *more: Any) -> Any:
    node = helper.make_node("If", ["flag"], ["y"], name="choose", then_branch=yes, else_branch=no)
    return model([node, *more], [X, value("flag", [1], BOOL)], ["y"], {"w": np.ones((3, 4))})


def _loop(limit: bool, collects: bool = False, most: int = 6) -> Any:
    """Return a loop that doubles x until its sum is 20 or more."""
    nodes = [
        helper.make_node("Add", ["had", "had"], ["has"], name="double"),
        helper.make_node("ReduceSum", ["has"], ["sum"], keepdims=0),
        helper.make_node("Less", ["sum", "enough"], ["goes"]),
    ]
    outputs = ["goes", "has"]
    if collects:
        nodes.append(helper.make_node("Identity", ["had"], ["seen"]))
        outputs.append("seen")
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", [], INT64), value("going", [], BOOL), value("had", [2])],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
    )
    made = ["y", "all"][: len(outputs) - 1]
    names = ["most" if limit else "", "", "x"]
    node = helper.make_node("Loop", names, made, body=body, name="loop")
    weights = {"most": np.array(most), "enough": np.float32(20)}
    return model([node], [X], made, weights)


@pytest.mark.parametrize("start", [0.1, 1.0, 4.0, 100.0])
def test_a_loop_may_end_early_by_a_computed_condition(start: float) -> None:
    x = np.full(2, start, "float32")
    expected = x
    for _ in range(6):
        expected = expected * 2
        if expected.sum() >= 20:
            break
    np.testing.assert_allclose(run(_loop(True), {"x": x})[0], expected)


def test_a_loop_of_no_iterations_collects_nothing() -> None:
    x = np.ones(2, "float32")
    kept, collected = run(_loop(True, collects=True, most=0), {"x": x})
    np.testing.assert_array_equal(kept, x)
    assert collected.shape == (0, 2)
    assert collected.dtype == x.dtype


def test_a_loop_may_not_begin_by_a_computed_condition() -> None:
    body = helper.make_graph(
        [
            helper.make_node("Neg", ["had"], ["has"]),
            helper.make_node("Identity", ["going"], ["goes"]),
        ],
        "body",
        [value("i", [], INT64), value("going", [], BOOL), value("had", [2])],
        [value("goes", [], BOOL), value("has", [2])],
    )
    node = helper.make_node("Loop", ["most", "flag", "x"], ["y"], body=body)
    given = model([node], [X, value("flag", [], BOOL)], ["y"], {"most": np.array(1)})
    x = np.array([1, 2], "float32")
    for flag in (True, False):
        (found,) = run(given, {"x": x, "flag": np.array(flag)})
        np.testing.assert_array_equal(found, -x if flag else x)


def test_a_loop_that_the_data_ends_is_left_to_the_run_time() -> None:
    for given in (_loop(False), _loop(True, collects=True)):
        mod, _ = from_onnx(given)
        assert any(name.name_hint.endswith("_loop") for name in mod.functions)


def test_branches_of_other_shapes_are_left_to_the_run_time_unless_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given = _if(
        _branch("a", helper.make_node("Relu", ["x"], ["a"])),
        _branch("b", helper.make_node("Concat", ["x", "x"], ["b"], axis=0)),
    )
    with caplog.at_level("INFO", "tvm_fusionx"):
        mod, _ = from_onnx(given)
    assert needs_run_time(mod)
    assert "choose is left to the run time. Bind 'flag': --constants flag=[N]" in caplog.text
    mod, _ = from_onnx(given, constants={"flag": np.array([True])})
    assert operator_names(mod) == ["nn.relu"]


def test_a_branch_that_fails_names_the_input_to_bind() -> None:
    given = _if(
        _branch("a", helper.make_node("Relu", ["x"], ["a"])),
        _branch("b", helper.make_node("MatMul", ["x", "w"], ["b"])),
    )
    with pytest.raises(UnsupportedOperatorError, match=r"else_branch cannot.*Bind 'flag'"):
        from_onnx(given)


def test_a_result_that_is_the_same_either_way_is_not_selected() -> None:
    same = _branch("x2", helper.make_node("Identity", ["x"], ["x2"]))
    given = _if(same, same, helper.make_node("Relu", ["y"], ["z"]))
    given.graph.output[0].name = "z"
    assert operator_names(from_onnx(given)[0]) == ["nn.relu"]


def test_sequences_are_selected_item_by_item() -> None:
    def pair(name: str, first: str) -> Any:
        nodes = [
            helper.make_node("Neg", ["x"], [first]),
            helper.make_node("SequenceConstruct", [first, "x"], [name]),
        ]
        return _branch(name, *nodes)

    item = helper.make_node("SequenceAt", ["y", "zero"], ["z"])
    no = _branch("n", helper.make_node("SequenceConstruct", ["x", "x"], ["n"]))
    given = _if(pair("p", "q"), no, item)
    given.graph.output[0].name = "z"
    given.graph.initializer.append(helper.make_tensor("zero", INT64, [], [0]))
    x = np.array([1, -2], "float32")
    for flag in (True, False):
        (found,) = run(given, {"x": x, "flag": np.array([flag])})
        np.testing.assert_array_equal(found, -x if flag else x)


def test_a_condition_is_one_boolean() -> None:
    given = _if(*[_branch("a", helper.make_node("Relu", ["x"], ["a"]))] * 2)
    given.graph.input[1].type.tensor_type.shape.dim[0].dim_value = 2
    with pytest.raises(UnsupportedOperatorError, match=r"one boolean; found bool \[2\]"):
        from_onnx(given)
