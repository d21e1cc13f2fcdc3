from __future__ import annotations

from onnx import helper

from tests.compress.quantize.small_networks import graph_of, residual
from tvm_fusionx.compress.quantize.model_graph import (
    INNER,
    ModelGraph,
    attribute,
    drop_unread,
    with_outputs,
)


def test_makers_readers_and_kinds_are_known() -> None:
    graph = graph_of(residual())
    convolution = next(node for node in graph.nodes if node.op_type == "Conv")
    assert graph.readers["x"] == [(convolution, 0)]
    assert graph.producers[convolution.output[0]] is convolution
    assert graph.is_activation("x")
    assert graph.is_constant(convolution.input[1])
    assert not graph.is_activation(convolution.input[1])
    assert graph.array(convolution.input[1]).shape == (16, 8, 3, 3)  # type: ignore[union-attr]
    assert graph.array("x") is None
    assert [info.name for info in graph.inputs] == ["x"]
    assert attribute(convolution, "group", 1) == 1
    assert attribute(convolution, "pads", None) == [1, 1, 1, 1]


def test_what_a_graph_within_reads_is_read() -> None:
    inner = helper.make_graph([helper.make_node("Neg", ["x"], ["n"])], "then", [], [])
    inner.output.append(helper.make_tensor_value_info("n", 1, None))
    branch = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner, name="if")
    made = helper.make_node("Relu", ["w"], ["x"], name="r")
    graph = ModelGraph(helper.make_model(helper.make_graph([made, branch], "g", [], [])))
    assert (branch, INNER) in graph.readers["x"]


def test_other_outputs_leave_the_model_as_it_is() -> None:
    model = graph_of(residual()).model
    before = model.SerializeToString(deterministic=True)
    changed = with_outputs(model, ["x"])
    assert [info.name for info in changed.graph.output] == ["x"]
    assert model.SerializeToString(deterministic=True) == before


def test_unread_constants_go() -> None:
    model = graph_of(residual()).model
    kept = len(model.graph.initializer)
    model.graph.initializer.append(helper.make_tensor("loose", 1, [1], [1.0]))
    drop_unread(model)
    assert len(model.graph.initializer) == kept
