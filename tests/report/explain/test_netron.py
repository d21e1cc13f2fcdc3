from __future__ import annotations

from pathlib import Path

import pytest
from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, var
from tvm_fusionx.report.explain.netron import netron_model, save_netron

onnx = pytest.importorskip("onnx")

x = var("x", 64, 512)


def test_a_block_is_a_node_and_a_function_of_its_operators(tmp_path: Path) -> None:
    plan = planned(relay.nn.dense(relay.nn.relu(relay.nn.dense(x, const(512, 512))), const(8, 512)))
    save_netron(plan, "net", tmp_path / "net.onnx")
    model = onnx.load(tmp_path / "net.onnx", load_external_data=False)
    assert [node.name for node in model.graph.node] == [block.name for block in plan.blocks]
    assert [function.name for function in model.functions] == [block.name for block in plan.blocks]
    for function, block in zip(model.functions, plan.blocks, strict=True):
        assert [node.op_type for node in function.node] == list(block.ops)
        assert [node.name for node in function.node] == [plan.labels[node] for node in block.nodes]
    assert [value.name for value in model.graph.input] == ["x"]
    assert sorted(tuple(tensor.dims) for tensor in model.graph.initializer) == [
        (8, 512),
        (512, 512),
    ]
    assert not any(tensor.raw_data for tensor in model.graph.initializer)


def test_the_model_is_valid_and_its_types_are_the_plans() -> None:
    first, second = relay.split(relay.exp(x), 2, axis=1)
    plan = planned(relay.nn.softmax(first, axis=0), relay.argsort(second), relay.exp(x))
    model = netron_model(plan, "")
    onnx.checker.check_model(model)
    shapes = [
        [extent.dim_value for extent in value.type.tensor_type.shape.dim]
        for value in model.graph.output
    ]
    assert shapes == [list(value.shape) for value in plan.outputs]
    written = [name for node in model.graph.node for name in node.output]
    assert len(set(written)) == len(written)
    assert {value.name for value in model.graph.output} <= set(written)


def test_a_function_has_the_borders_of_its_node() -> None:
    plan = planned(relay.tanh(relay.argsort(relay.exp(x), dtype="float32")) + x)
    model = netron_model(plan, "net")
    for node, function in zip(model.graph.node, model.functions, strict=True):
        assert list(node.input) == list(function.input)
        assert list(node.output) == list(function.output)
