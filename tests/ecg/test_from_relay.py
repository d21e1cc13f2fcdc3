from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import NotAGraphError, TensorType, from_relay

CHAIN = 20_000


def test_calls_inputs_and_constants_become_nodes_with_types() -> None:
    x, w = var("x", 4, 8), const(6, 8)
    found = graph(relay.nn.relu(relay.nn.dense(x, w)))
    assert [node.op for node in found.topological()] == ["input", "constant", "nn.dense", "nn.relu"]
    assert [node.name for node in found.inputs] == ["x"]
    assert found.outputs[0].type == TensorType((4, 6), "float32")
    assert not found.returns_tuple


def test_equal_calls_become_one_node() -> None:
    x = var("x", 4, 8)
    found = graph(relay.exp(x) + relay.exp(x))
    assert [node.op for node in found.calls()] == ["exp", "add"]


def test_equal_constants_become_one_node_and_different_ones_do_not() -> None:
    x = var("x", 3)
    found = graph((x + const(3, seed=1)) * const(3, seed=1) - const(3, seed=2))
    assert sum(node.op == "constant" for node in found.topological()) == 2


def test_constants_of_equal_bytes_and_other_type_stay_apart() -> None:
    x = var("x", 2)
    zeros = [relay.const(np.zeros(2, dtype), dtype) for dtype in ("float32", "int32")]
    found = graph(relay.where(relay.cast(zeros[1], "bool"), x, zeros[0]))
    assert sum(node.op == "constant" for node in found.topological()) == 2


def test_attributes_tell_calls_apart() -> None:
    x = var("x", 4, 4)
    found = graph(relay.sum(x, axis=0) + relay.sum(x, axis=1))
    assert [node.op for node in found.calls()] == ["sum", "sum", "add"]


def test_tuples_and_projections_disappear() -> None:
    x = var("x", 4, 6)
    parts = relay.split(x, 3, axis=1)
    found = graph(relay.concatenate([parts[2], parts[0]], axis=1))
    assert [node.op for node in found.calls()] == ["split", "concatenate"]
    split, concatenate = found.calls()
    assert concatenate.operands == (split[2], split[0])
    assert concatenate.grouping == (2,)
    assert split.returns_tuple


def test_a_tuple_body_gives_several_outputs() -> None:
    x = var("x", 4)
    found = graph(relay.exp(x), x)
    assert found.returns_tuple
    assert [value.op for value in found.outputs] == ["exp", "input"]


def test_a_tuple_of_one_stays_a_tuple() -> None:
    x = var("x", 4)
    mod = relay.transform.InferType()(
        tvm.IRModule.from_expr(relay.Function([x], relay.Tuple([relay.exp(x)])))
    )
    found = from_relay(mod["main"])
    assert found.returns_tuple
    assert len(found.outputs) == 1


def test_a_parameter_that_nothing_reads_stays_an_input() -> None:
    x, unread = var("x", 4), var("unread", 2)
    assert [n.name for n in graph(relay.exp(x), params=[unread, x]).inputs] == ["unread", "x"]


def test_the_name_of_the_models_node_is_the_nodes_name() -> None:
    x = var("x", 4)
    span = relay.Span(relay.SourceName("encoder/exp"), 0, 0, 0, 0)
    (node,) = graph(relay.Call(relay.op.get("exp"), [x], None, None, span)).calls()
    assert node.name == "encoder/exp"


def test_a_called_function_is_a_node_of_its_own() -> None:
    x, p = var("x", 4), var("p", 4)
    func = relay.Function([p], relay.exp(p)).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    (node,) = graph(relay.Call(func, [x])).calls()
    assert node.op == "function"
    assert int(node.payload.attrs["Primitive"]) == 1


@pytest.mark.slow
def test_a_deep_chain_needs_no_recursion() -> None:
    x = var("x", 1)
    expr: relay.Expr = x
    for _ in range(CHAIN):
        expr = relay.nn.relu(expr)
    assert len(graph(expr, params=[x]).calls()) == CHAIN


def _if() -> relay.Expr:
    condition, x = var("condition", dtype="bool"), var("x", 4)
    return relay.If(condition, relay.exp(x), x)


def _let() -> relay.Expr:
    x, bound = var("x", 4), var("bound", 4)
    return relay.Let(bound, relay.exp(x), relay.exp(bound))


def _reference() -> relay.Expr:
    return relay.RefRead(relay.RefCreate(var("x", 4)))


def _dynamic_shape() -> relay.Expr:
    return relay.exp(relay.var("x", shape=(relay.Any(), 4)))


def _dynamic_result() -> relay.Expr:
    return relay.argwhere(var("x", 4))


def _tuple_of_tuples() -> relay.Expr:
    x = var("x", 4)
    return relay.Tuple([relay.Tuple([x, x]), x])


def _call_of_variable() -> relay.Expr:
    type_ = relay.TensorType((4,), "float32")
    func = relay.Var("f", relay.FuncType([type_], type_))
    return relay.Call(func, [var("x", 4)])


@pytest.mark.parametrize(
    ("expr", "message"),
    [
        (_if, "If is not a data-flow expression"),
        (_let, "Let is not a data-flow expression"),
        (_reference, "RefRead is not a data-flow expression"),
        (_dynamic_shape, "unknown extent"),
        (_dynamic_result, "unknown extent"),
        (_tuple_of_tuples, "a tuple of tuples"),
        (_call_of_variable, "is not a tensor type"),
    ],
)
def test_what_is_more_than_a_static_graph_is_refused(expr: object, message: str) -> None:
    with pytest.raises(NotAGraphError, match=message):
        graph(expr())  # type: ignore[operator]


def test_a_constant_without_a_numpy_type_is_refused() -> None:
    data = tvm.nd.empty((2,), "e4m3_float8")
    with pytest.raises(NotAGraphError, match="e4m3_float8"):
        graph(relay.Constant(data) + relay.var("x", shape=(2,), dtype="e4m3_float8"))
