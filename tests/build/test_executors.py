from __future__ import annotations

import logging

import pytest

import tvm_fusionx as fx
from tests.data_models import branching, suppressing
from tests.tiny_models import perceptron
from tvm_fusionx.build.executors import GRAPH, VM, chosen_executor, why_virtual_machine
from tvm_fusionx.errors import ShapeError, TargetError


def test_a_static_model_is_for_the_graph_executor_unless_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mod, _ = fx.from_onnx(perceptron())
    assert chosen_executor(mod, None) == GRAPH
    assert chosen_executor(mod, VM) == VM
    assert why_virtual_machine(mod) == "it was asked for"
    assert not caplog.messages


def test_the_machine_is_chosen_and_the_reason_logged(caplog: pytest.LogCaptureFixture) -> None:
    mod, _ = fx.from_onnx(suppressing())
    with caplog.at_level(logging.INFO, "tvm_fusionx"):
        assert chosen_executor(mod, None) == VM
    assert "virtual machine" in caplog.text
    assert "node 'nms'" in caplog.text


@pytest.mark.parametrize(
    ("model", "node"), [(suppressing(), "nms"), (branching(), "choose")], ids=["shape", "branch"]
)
def test_the_graph_executor_is_refused_with_the_node(model: object, node: str) -> None:
    mod, _ = fx.from_onnx(model)
    with pytest.raises(ShapeError, match=f"of node '{node}'.*executor='vm'"):
        chosen_executor(mod, GRAPH)


def test_an_unknown_executor_is_refused() -> None:
    mod, _ = fx.from_onnx(perceptron())
    with pytest.raises(TargetError, match=r"'graph' or 'vm'.*'aot'"):
        chosen_executor(mod, "aot")
