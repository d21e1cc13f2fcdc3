from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import Graph, Value
from tvm_fusionx.rewrite.matching import find_matches, with_groups_joined
from tvm_fusionx.rewrite.term import Term, call, computed, one_of, op, variable
from tvm_fusionx.rewrite.writing import CannotWriteError, Writing, grouping_of, write

x, y = var("x", 4, 8), var("y", 4, 8)
a, b = variable("a"), variable("b")


def _written(pattern: Term, right: Term, expr: relay.Expr) -> tuple[Graph, Value]:
    found = graph(expr)
    root = found.outputs[0]
    match = next(find_matches(found, pattern, root))
    values = with_groups_joined(found, match, "")
    return found, write(Writing(found, match, values, root.dtype, root.node.name), right)


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


def test_given_attributes_are_completed_by_defaults() -> None:
    _, value = _written(op.exp(a), call("max", a, attrs={"axis": [0]}), relay.exp(x))
    assert value.shape == (8,)
    assert value.node.attrs["keepdims"] == 0


def test_one_of_several_operators_is_the_one_that_matched() -> None:
    function = one_of("f", ["tanh", "exp"])
    _, value = _written(function(function(a)), function(a), relay.tanh(relay.tanh(x)))
    assert value.op == "tanh"


def test_what_the_pattern_does_not_cover_is_joined_again() -> None:
    factor = relay.const(2.0)
    _, value = _written(op.exp(a) * op.exp(b), op.exp(a + b), relay.exp(x) * factor * relay.exp(y))
    assert value.op == "multiply"
    assert {operand.op for operand in value.node.operands} == {"constant", "exp"}


def test_a_literal_has_the_type_of_what_it_meets() -> None:
    whole = var("n", 4, dtype="int32")
    _, value = _written(op.abs(a), a * 2.0, relay.abs(whole))
    assert value.dtype == "int32"


def test_python_writes_a_part_or_says_why_not() -> None:
    def doubled(writing: Writing, value: Value) -> Value:
        return writing.graph.call("add", [value, value])

    def never(writing: Writing, value: Value) -> str:
        return "never"

    _, value = _written(op.exp(a), op.tanh(computed(doubled)(a)), relay.exp(x))
    assert value.node.operands[0].op == "add"
    with pytest.raises(CannotWriteError, match="never"):
        _written(op.exp(a), computed(never)(a), relay.exp(x))


def test_nothing_is_written_as_a_value_less_itself_unless_it_is_finite() -> None:
    with pytest.raises(CannotWriteError, match="may be NaN"):
        _written(a + op.negative(b), a - b, x + relay.negative(x))
    whole = relay.cast(var("n", 4, dtype="int8"), "float32")
    for value in (whole, var("n", 4, dtype="int32")):
        _, made = _written(a + op.negative(b), a - b, value + relay.negative(value))
        assert made.op == "subtract"


def test_operators_of_a_tuple_group_their_operands() -> None:
    assert grouping_of("concatenate", 3) == (3,)
    assert grouping_of("add", 2) == (None, None)
    _, value = _written(a + b, call("concatenate", a, b, attrs={"axis": 0}), x + const(4, 8))
    assert value.shape == (8, 8)
