from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tvm_fusionx.ecg.block_calls import (
    count_blocks,
    is_block_call,
    is_in_blocks,
    operands_of,
    post_order,
    with_body,
    with_operands,
)
from tvm_fusionx.ecg.to_relay import BLOCK_NAME


def test_operands_come_before_users_and_each_expression_once() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    root = relay.Tuple([relay.add(shared, x), relay.nn.relu(shared)])
    order = post_order(root)
    assert len(order) == 5
    assert [order.index(e) for e in (x, shared)] == [0, 1]
    assert order[-1] == root


@pytest.mark.slow
def test_a_graph_deeper_than_the_interpreters_stack_is_walked() -> None:
    depth = 20_000
    expr = relay.var("x", shape=(2,))
    chain = [expr]
    for _ in range(depth):
        chain.append(relay.exp(chain[-1]))
    assert len(post_order(chain[-1])) == depth + 1
    # TVM frees a chain recursively, from its end; link by link it takes no stack.
    while chain:
        chain.pop()


def test_only_a_call_of_a_primitive_function_is_a_block() -> None:
    x = relay.var("x", shape=(2,))
    function = relay.Function([x], relay.exp(x))
    argument = relay.var("y", shape=(2,))
    assert not is_block_call(relay.Call(function, [argument]))
    assert not is_block_call(relay.exp(argument))
    assert is_block_call(relay.Call(function.with_attr("Primitive", 1), [argument]))


def test_only_blocks_of_a_plan_are_counted() -> None:
    x, y, argument = (relay.var(name, shape=(2,)) for name in "xyz")
    theirs = relay.Function([x], relay.exp(x)).with_attr("Primitive", 1)
    ours = relay.Function([y], relay.log(y)).with_attr("Primitive", 1).with_attr(BLOCK_NAME, "log")
    call = relay.Call(theirs, [relay.Call(ours, [argument])])
    assert count_blocks(tvm.IRModule.from_expr(call)) == 1


def test_a_module_is_in_blocks_where_nothing_is_called_outside_of_them() -> None:
    x, argument = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    block = relay.Function([x], relay.exp(x)).with_attr("Primitive", 1)
    call = relay.Call(block, [argument])
    inside = relay.Tuple([call, argument])
    assert is_in_blocks(tvm.IRModule.from_expr(relay.Function([argument], inside)))
    outside = relay.nn.relu(call)
    assert not is_in_blocks(tvm.IRModule.from_expr(relay.Function([argument], outside)))


def test_a_projection_has_its_tuple_as_operand() -> None:
    pair = relay.Tuple([relay.var("x"), relay.var("y")])
    assert operands_of(relay.TupleGetItem(pair, 1)) == [pair]


def test_the_walk_stops_at_what_is_known() -> None:
    x = relay.var("x", shape=(2,))
    known = relay.exp(x)
    root = relay.nn.relu(known)
    assert post_order(root, {known}) == [root]


def test_an_expression_of_other_operands_is_of_the_same_kind() -> None:
    a, b = relay.var("a", shape=(2,)), relay.var("b", shape=(2,))
    cases = [
        (relay.exp(a), [b], relay.exp(b)),
        (relay.Tuple([a, a]), [b, a], relay.Tuple([b, a])),
        (relay.TupleGetItem(relay.Tuple([a, b]), 1), [b], relay.TupleGetItem(b, 1)),
    ]
    for expr, operands, other in cases:
        assert len(operands) == len(operands_of(expr))
        assert tvm.ir.structural_equal(with_operands(expr, operands), other, map_free_vars=True)
    assert with_operands(a, []).same_as(a)


def test_a_function_of_another_body_keeps_all_else() -> None:
    x = relay.var("x", shape=(2,))
    function = relay.Function([x], relay.exp(x)).with_attr("kept", "yes")
    changed = with_body(function, relay.nn.relu(x))
    assert changed.body.op.name == "nn.relu"
    assert changed.params[0].same_as(x)
    assert changed.attrs["kept"] == "yes"
