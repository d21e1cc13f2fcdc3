from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.rewrite.cost import Cost, cost_of, freed_by

x, y = var("x", 4, 8), var("y", 4, 8)


def _cost(*exprs: relay.Expr) -> Cost:
    return cost_of(graph(*exprs).calls())


def test_each_field_counts_its_own() -> None:
    expr = relay.reshape(relay.transpose(x * y), (4, 8))
    assert _cost(expr) == Cost(
        arithmetic=32,
        bytes=128,
        kernels=0,
        computing_calls=1,
        irregular_calls=0,
        moving_calls=1,
        moved_bytes=128,
        calls=3,
    )


def test_what_is_known_at_compile_time_costs_nothing() -> None:
    assert _cost(x + relay.exp(const(4, 8) * const(8))) == _cost(x + y)


# Cheaper first, and what makes the difference.
ORDERED: dict[str, tuple[Callable[[], relay.Expr], Callable[[], relay.Expr]]] = {
    "multiply before divide": (lambda: x * y, lambda: x / y),
    "divide before exponential": (lambda: x / y, lambda: relay.exp(x)),
    "exponential before power": (lambda: relay.exp(x), lambda: relay.power(x, y)),
    "fewer calls at equal arithmetic": (
        lambda: relay.nn.dense(x, const(8, 8)),
        lambda: relay.concatenate(
            [relay.nn.dense(x, const(4, 8, seed=seed)) for seed in range(2)], axis=1
        ),
    ),
    "bytes before kernels": (
        lambda: relay.nn.dense(x, const(2, 8)),
        lambda: relay.abs(relay.negative(relay.abs(relay.negative(x)))),
    ),
    "kernels before calls": (
        lambda: relay.Tuple(
            [
                relay.strided_slice(
                    relay.nn.dense(x, const(8, 8)), [0, 4 * part], [4, 4 * part + 4]
                )
                for part in range(2)
            ]
        ),
        lambda: relay.Tuple([relay.nn.dense(x, const(4, 8, seed=seed)) for seed in range(2)]),
    ),
    "slices before split": (
        lambda: relay.Tuple([relay.strided_slice(x, [0], [2]), relay.strided_slice(x, [2], [4])]),
        lambda: relay.Tuple(list(relay.split(x, 2))),
    ),
    "dense before batch_matmul": (
        lambda: relay.reshape(relay.nn.dense(x, const(6, 8)), (1, 4, 6)),
        lambda: relay.nn.batch_matmul(relay.reshape(x, (1, 4, 8)), const(1, 6, 8)),
    ),
    "reshape before transpose": (lambda: relay.reshape(x, (8, 4)), lambda: relay.transpose(x)),
    "fewer bytes": (
        lambda: relay.transpose(relay.sum(relay.reshape(x, (4, 2, 4)), axis=1)),
        lambda: relay.sum(relay.transpose(relay.reshape(x, (4, 2, 4)), [0, 2, 1]), axis=2),
    ),
    "one reshape before two": (
        lambda: relay.reshape(x, (8, 4)),
        lambda: relay.reshape(relay.reshape(x, (32,)), (8, 4)),
    ),
}


@pytest.mark.parametrize("kind", ORDERED)
def test_order(kind: str) -> None:
    cheap, dear = ORDERED[kind]
    assert _cost(cheap()) < _cost(dear())


def _freed(*exprs: relay.Expr) -> list[str]:
    found = graph(*exprs)
    root = found.outputs[0]
    return sorted(node.op for node in freed_by(found, [root], set()))


def test_a_replaced_call_frees_what_only_it_needs() -> None:
    shared = relay.exp(x)
    assert _freed(relay.tanh(relay.abs(x)) + shared, relay.sin(shared)) == ["abs", "add", "tanh"]


def test_calls_shared_within_what_is_freed_are_freed_once() -> None:
    shared = relay.exp(x)
    assert _freed(relay.tanh(shared) + relay.sin(shared)) == ["add", "exp", "sin", "tanh"]


def test_what_the_replacement_reads_is_kept() -> None:
    found = graph(relay.tanh(relay.exp(relay.abs(x))))
    calls = {node.op: node for node in found.calls()}
    freed = freed_by(found, [found.outputs[0]], {calls["exp"]})
    assert freed == {calls["tanh"]}


def test_what_the_graph_returns_is_kept() -> None:
    inner = relay.exp(x)
    assert _freed(relay.tanh(inner), inner) == ["tanh"]


def test_a_call_with_another_result_in_use_is_kept() -> None:
    parts = relay.split(x, 2, axis=1)
    assert _freed(relay.tanh(parts[0]), relay.exp(parts[1])) == ["tanh"]
