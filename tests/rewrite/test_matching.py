from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import Graph, Value
from tvm_fusionx.rewrite.matching import Match, find_matches, is_filled_with, write
from tvm_fusionx.rewrite.term import Term, call, op, variable

x, y = var("x", 4, 8), var("y", 4, 8)
a, b, c = variable("a"), variable("b"), variable("c")


def _matches(pattern: Term, expr: relay.Expr) -> list[dict[str, str]]:
    """Return what each variable stands for, by operator or input name, for each match."""
    found = graph(expr)
    return [
        {name: value.node.name or value.op for name, value in match.values.items()}
        for match in find_matches(pattern, found.outputs[0])
    ]


def test_commutative_operands_match_in_both_orders_the_written_one_first() -> None:
    assert _matches(a + b, x + y) == [{"a": "x", "b": "y"}, {"a": "y", "b": "x"}]


def test_other_operands_match_as_they_stand() -> None:
    assert _matches(a - b, x - y) == [{"a": "x", "b": "y"}]


def test_orders_multiply_through_nested_operators() -> None:
    assert len(_matches((a + b) * c, (x + y) * relay.exp(x))) == 2
    assert len(_matches((a + b) * (c + a), (x + y) * (x + relay.exp(x)))) == 2


def test_a_variable_stands_for_one_value() -> None:
    assert _matches(a * a, x * x) == [{"a": "x"}]
    assert _matches(a * a, x * y) == []
    assert _matches(a * c + b * c, x * y + relay.exp(x) * y) != []
    assert _matches(a * c + b * c, x * y + relay.exp(x) * relay.exp(y)) == []


@pytest.mark.parametrize(("filler", "count"), [(1.0, 1), (np.ones((4, 8), "float32"), 1), (2.0, 0)])
def test_a_literal_is_a_constant_filled_with_that_number(filler: object, count: int) -> None:
    expr = relay.const(np.asarray(filler, "float32")) / x
    assert len(_matches(1.0 / a, expr)) == count


def test_attributes_that_are_asked_for_must_be_there() -> None:
    pattern = call("sum", a, attrs={"axis": (1,)})
    assert len(_matches(pattern, relay.sum(x, axis=1))) == 1
    assert _matches(pattern, relay.sum(x, axis=0)) == []
    assert len(_matches(op.sum(a), relay.sum(x, axis=0))) == 1


def test_a_call_with_several_results_is_no_match() -> None:
    parts = relay.split(x, 2, axis=1)
    assert _matches(op.exp(op.split(a)), relay.exp(parts[0])) == []


def test_a_match_names_the_calls_it_covers_root_first() -> None:
    found = graph(relay.exp(relay.tanh(x)))
    (match,) = find_matches(op.exp(op.tanh(a)), found.outputs[0])
    assert [node.op for node in match.nodes] == ["exp", "tanh"]


def test_empty_constants_are_filled_with_nothing() -> None:
    found = graph(relay.const(np.zeros((0, 2), "float32")))
    assert not is_filled_with(found.outputs[0], 0.0)


def _written(pattern: Term, right: Term, expr: relay.Expr) -> tuple[Graph, Value]:
    found = graph(expr)
    match: Match = next(find_matches(pattern, found.outputs[0]))
    return found, write(found, right, match, "float32")


def test_the_right_side_takes_attributes_of_the_same_operator() -> None:
    expr = relay.sum(x * relay.const(2.0), axis=1, keepdims=True)
    _, value = _written(op.sum(a * b), op.sum(a) * b, expr)
    assert value.shape == (4, 1)


def test_the_right_side_takes_attributes_of_another_reduction() -> None:
    _, value = _written(op.prod(op.exp(a)), op.exp(op.sum(a)), relay.prod(relay.exp(x), axis=0))
    assert value.shape == (8,)


def test_the_right_side_shares_equal_calls_and_keeps_the_name() -> None:
    span = relay.Span(relay.SourceName("root"), 0, 0, 0, 0)
    expr = relay.Call(relay.op.get("exp"), [x], None, None, span)
    found, value = _written(op.exp(a), (a + 1.0) * (a + 1.0), expr)
    assert value.node.operands[0] is value.node.operands[1]
    assert value.node.name == "root"
    assert found.contains(value.node)


def test_given_attributes_are_written() -> None:
    found = graph(relay.sum(x, axis=1), const(2))
    match = next(find_matches(op.sum(a), found.outputs[0]))
    attrs = {"axis": (0,), "keepdims": False, "exclude": False}
    assert write(found, call("max", a, attrs=attrs), match, "float32").shape == (8,)
