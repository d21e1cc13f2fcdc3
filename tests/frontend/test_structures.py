from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx_nodes import run
from tests.frontend.small_models import calls, model, operator_names, value
from tests.sampled import few_fast
from tvm_fusionx.build.executors import VM, chosen_executor
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx

X = np.arange(6, dtype="float32").reshape(2, 3) - 2
BOOL, INT64 = TensorProto.BOOL, TensorProto.INT64


def branch(name: str, op_type: str) -> object:
    """Return a graph that applies an operator to x of the surroundings."""
    node = helper.make_node(op_type, ["x"], [name], name=op_type.lower())
    return helper.make_graph([node], name, [], [helper.make_empty_tensor_value_info(name)])


def if_model(weights: dict[str, object] | None = None) -> object:
    node = helper.make_node(
        "If",
        ["flag"],
        ["y"],
        name="choose",
        then_branch=branch("yes", "Relu"),
        else_branch=branch("no", "Neg"),
    )
    return model([node], [value("x", [2, 3]), value("flag", [], BOOL)], ["y"], weights)


def test_a_known_condition_leaves_one_branch() -> None:
    mod, _ = from_onnx(if_model(), constants={"flag": np.array(True)})
    assert operator_names(mod) == ["nn.relu"]
    assert calls(mod)[0].span.source_name.name == "choose/relu"


@pytest.mark.parametrize("flag", [True, False])
def test_a_computed_condition_selects_between_both(flag: bool) -> None:
    (found,) = run(if_model(), {"x": X, "flag": np.array(flag)})
    np.testing.assert_array_equal(found, np.maximum(X, 0) if flag else -X)


def loop_model() -> object:
    """Return a loop that adds the step to x and collects what it had."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["had", "f"], ["has"], name="step"),
            helper.make_node("Identity", ["going"], ["goes"]),
            helper.make_node("Identity", ["had"], ["seen"]),
        ],
        "body",
        [value("i", [], INT64), value("going", [], BOOL), value("had", [2, 3])],
        [value("goes", [], BOOL), value("has", [2, 3]), value("seen", [2, 3])],
    )
    node = helper.make_node("Loop", ["count", "", "x"], ["y", "all"], body=body, name="loop")
    return model([node], [value("x", [2, 3]), value("count", [], INT64)], ["y", "all"])


def test_a_loop_of_known_length_is_unrolled() -> None:
    count = {"count": np.array(3, "int64")}
    found = run(loop_model(), {"x": X}, constants=count)
    np.testing.assert_array_equal(found[0], X + 3)
    np.testing.assert_array_equal(found[1], np.stack([X, X, X + 1]))
    mod, _ = from_onnx(loop_model(), constants=count)
    names = {call.span.source_name.name for call in calls(mod)}
    assert "loop/1/step" in names


def test_a_loop_of_unknown_length_is_left_to_the_run_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level("WARNING"):
        mod, params = from_onnx(loop_model())
    assert "Loop node 'loop' is left to the run time. Bind 'count'" in caplog.text
    assert chosen_executor(mod, None) == VM
    assert "count" not in params


@pytest.mark.slow
def test_a_loop_longer_than_any_program_is_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="at most 1000 iterations"):
        from_onnx(loop_model(), constants={"count": np.array(10**6, "int64")})


@pytest.mark.parametrize("direction", few_fast([0, 1], 1))
def test_a_scan_runs_over_an_axis(direction: int) -> None:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["sum", "row"], ["total"]),
            helper.make_node("Identity", ["total"], ["partial"]),
        ],
        "body",
        [value("sum", [2]), value("row", [2])],
        [value("total", [2]), value("partial", [2])],
    )
    node = helper.make_node(
        "Scan",
        ["start", "x"],
        ["last", "partials"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_input_directions=[direction],
    )
    given = model([node], [value("start", [2]), value("x", [2, 3])], ["last", "partials"])
    last, partials = run(given, {"start": np.zeros(2, "float32"), "x": X})
    rows = X[:, ::-1] if direction else X
    np.testing.assert_allclose(partials, np.cumsum(rows, axis=1).T)
    np.testing.assert_allclose(last, X.sum(axis=1))


def test_sequences_are_resolved() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["s"], axis=1, keepdims=0),
        helper.make_node("SequenceErase", ["s", "one"], ["t"]),
        helper.make_node("SequenceInsert", ["t", "row", "zero"], ["u"]),
        helper.make_node("SequenceLength", ["u"], ["count"]),
        helper.make_node("SequenceAt", ["u", "one"], ["item"]),
        helper.make_node("ConcatFromSequence", ["u"], ["stacked"], axis=0, new_axis=1),
        helper.make_node("SequenceConstruct", ["item", "row"], ["pair"]),
    ]
    weights = {"one": np.array(1), "zero": np.array(0)}
    outputs = ["count", "item", "stacked", "pair"]
    given = model(nodes, [value("x", [2, 3]), value("row", [2])], outputs, weights)
    row = np.array([7, 8], "float32")
    found = run(given, {"x": X, "row": row})
    assert int(found[0]) == 3
    np.testing.assert_array_equal(found[1], X[:, 0])
    np.testing.assert_array_equal(found[2], np.stack([row, X[:, 0], X[:, 2]]))
    # A sequence output becomes one output for each item.
    np.testing.assert_array_equal(found[3], X[:, 0])
    np.testing.assert_array_equal(found[4], row)


def test_an_optional_is_its_content() -> None:
    nodes = [
        helper.make_node("Optional", ["x"], ["o"]),
        helper.make_node("OptionalHasElement", ["o"], ["has"]),
        helper.make_node("OptionalGetElement", ["o"], ["y"]),
    ]
    mod, _ = from_onnx(model(nodes, [value("x", [2])], ["has", "y"], opset=18))
    assert mod["main"].body.fields[0].data.numpy().item() is True
    assert mod["main"].body.fields[1].same_as(mod["main"].params[0])
