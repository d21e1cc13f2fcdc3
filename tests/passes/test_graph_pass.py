from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay

from tests.relay_modules import module, operator_names, var
from tvm_fusionx.ecg import Graph, to_relay
from tvm_fusionx.ecg.block_calls import STEERS
from tvm_fusionx.passes.graph_pass import is_data_flow, is_plain_function, transform_graphs

x = var("x", 4, 8)


def _with_tanh(seen: list[str]) -> Any:
    """Return a transformation that puts a tanh on the first output, and notes what it saw."""

    def transform(name: str, graph: Graph) -> Any:
        seen.append(name)
        graph.outputs = (graph.call("tanh", [graph.outputs[0]]),)
        return to_relay(graph)

    return transform


def _branch() -> tvm.IRModule:
    condition = var("condition", dtype="bool")
    return module(relay.If(condition, relay.exp(x), x), params=[condition, x])


def test_every_static_function_is_transformed() -> None:
    before = module(relay.exp(x))
    p = var("p", 4)
    before["other"] = relay.Function([p], relay.sin(p))
    seen: list[str] = []
    after = transform_graphs(before, _with_tanh(seen))
    assert sorted(seen) == ["main", "other"]
    assert operator_names(after["main"]) == ["exp", "tanh"]
    assert operator_names(after["other"]) == ["sin", "tanh"]
    assert after["main"].body.checked_type == relay.TensorType((4, 8), "float32")


def test_the_module_given_is_not_changed() -> None:
    before = module(relay.exp(x))
    transform_graphs(before, _with_tanh([]))
    assert operator_names(before["main"]) == ["exp"]


def test_attributes_of_the_module_are_kept() -> None:
    before = module(relay.exp(x)).with_attr("executor_hint", "graph")
    assert transform_graphs(before, _with_tanh([])).attrs["executor_hint"] == "graph"


def test_control_flow_stays_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    before = _branch()
    seen: list[str] = []
    after = transform_graphs(before, _with_tanh(seen))
    assert seen == []
    assert tvm.ir.structural_equal(after, before)
    assert "main stays as it is: If is not a data-flow expression" in caplog.text


@pytest.mark.parametrize(
    ("attribute", "value"), [("Primitive", tvm.tir.IntImm("int32", 1)), ("Compiler", "dnnl")]
)
def test_what_somebody_has_claimed_is_left_alone(attribute: str, value: object) -> None:
    before = module(relay.exp(x))
    p = var("p", 4)
    claimed = relay.Function([p], relay.sin(p)).with_attr(attribute, value)
    before["claimed"] = claimed.with_attr("global_symbol", "claimed")
    seen: list[str] = []
    after = transform_graphs(before, _with_tanh(seen))
    assert seen == ["main"]
    assert operator_names(after["claimed"]) == ["sin"]
    assert not is_plain_function(after["claimed"])
    assert is_plain_function(after["main"])


def test_a_kernel_is_no_relay_function() -> None:
    assert not is_plain_function(tvm.tir.PrimFunc([], tvm.tir.Evaluate(0)))


def test_a_function_that_steers_is_no_data_flow() -> None:
    assert is_data_flow(module(relay.exp(x))["main"])
    assert not is_data_flow(_branch()["main"])
    called = module(relay.exp(x))
    p = var("p", 4, 8)
    called["calls"] = relay.Function([p], relay.Call(called.get_global_var("main"), [p]))
    assert not is_data_flow(called["calls"])
    assert not is_data_flow(module(relay.exp(x))["main"].with_attr(STEERS, 1))
