from __future__ import annotations

import numpy as np
from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, graph, var
from tvm_fusionx.expressions.sparse_products import register_sparse_products
from tvm_fusionx.fusion.block_key import block_key, block_keys, signature
from tvm_fusionx.fusion.border import border_of

x = var("x", 4, 8)


def _key(*results: relay.Expr) -> str:
    found = graph(*results)
    calls = found.calls()
    return block_key(calls, border_of(found, calls, frozenset(found.outputs)))


def test_names_and_weights_do_not_count() -> None:
    first = relay.nn.dense(x, const(8, 8, seed=1))
    second = relay.nn.dense(var("other", 4, 8), const(8, 8, seed=2))
    assert _key(first) == _key(second)


def test_the_number_of_calls_around_does_not_count() -> None:
    around = graph(relay.tanh(relay.exp(relay.sin(x))))
    (_, middle, _) = around.calls()
    border = border_of(around, [middle], frozenset(around.outputs))
    assert block_key([middle], border) == _key(relay.exp(x))


def test_everything_that_changes_the_kernel_counts() -> None:
    keys = [
        _key(expr)
        for expr in (
            relay.exp(x),
            relay.tanh(x),
            relay.exp(var("x", 8, 4)),
            relay.exp(var("x", 4, 8, dtype="float64")),
            relay.sum(x, axis=0),
            relay.sum(x, axis=1),
            x + relay.const(1.0),
            x + relay.const(2.0),
            x + const(8),
            x + var("y", 4, 8),
            x + x,
            x - var("y", 4, 8),
            var("y", 4, 8) - relay.exp(x),
            relay.exp(x) - var("y", 4, 8),
        )
    ]
    assert len(set(keys)) == len(keys)


def test_lists_that_steer_a_kernel_count() -> None:
    register_sparse_products()

    def product(*columns: int) -> relay.Expr:
        # Two groups of 16 outputs; starts, firsts, places of the outputs, and columns.
        index = np.array([0, 1, 2, 0, 16, *range(32), *columns], "int32")
        call = relay.op.op.get("fusionx.sparse_dense")
        attrs = relay.nn.dense(x, const(32, 8), units=32).attrs
        return relay.Call(call, [x, const(2, 1, 16), relay.const(index)], attrs)

    assert _key(product(0, 3)) == _key(product(0, 3))
    assert _key(product(0, 3)) != _key(product(0, 4))


def test_what_is_returned_counts() -> None:
    inner = relay.exp(x)
    assert _key(relay.tanh(inner)) != _key(relay.tanh(inner), inner)


def test_a_signature_tells_operators_and_results() -> None:
    found = graph(relay.tanh(relay.exp(x)))
    border = border_of(found, found.calls(), frozenset(found.outputs))
    assert signature(found.calls(), border) == "exp+tanh -> float32[4, 8]"


def test_blocks_of_a_plan_have_the_keys_of_their_borders() -> None:
    hidden = relay.nn.relu(relay.nn.dense(var("x", 128, 384), const(384, 384)))
    plan = planned(relay.nn.dense(hidden, const(384, 384, seed=1)), hidden)
    found = graph(relay.nn.dense(hidden, const(384, 384, seed=1)), hidden)
    expected = {block.ops: None for block in plan.blocks}
    assert len(expected) == len(plan.blocks) == 2
    for block, key in zip(plan.blocks, block_keys(plan), strict=True):
        nodes = [node for node in found.calls() if node.op in block.ops]
        if len(nodes) == len(block.nodes):
            border = border_of(found, nodes, frozenset(found.outputs))
            assert key == block_key(nodes, border)


def test_equal_blocks_of_a_plan_have_one_key() -> None:
    value = var("x", 128, 384)
    for seed in range(3):
        value = relay.nn.dense(value, const(384, 384, seed=seed))
    keys = block_keys(planned(relay.nn.relu(value)))
    assert len(keys) == 3
    assert keys[0] == keys[1] != keys[2]
