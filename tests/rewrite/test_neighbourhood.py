"""Kernels saved by a change, counted in its surroundings, are those saved in the whole graph."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import Graph
from tvm_fusionx.fusion import plan
from tvm_fusionx.rewrite import ALL_RULES
from tvm_fusionx.rewrite.engine import apply_rules

RULES = {rule.name: rule for rule in ALL_RULES}
# Too large for the planner to put several products into one kernel.
WIDE = 256
x = var("x", WIDE, WIDE)
left, right = const(WIDE, WIDE, seed=1), const(WIDE, WIDE, seed=2)


def _count(found: Graph) -> int:
    return plan(found).kernels


def _product(data: relay.Expr, seed: int) -> relay.Expr:
    return relay.nn.dense(data, const(WIDE, WIDE, seed=seed))


def _heads(data: relay.Expr) -> relay.Expr:
    return relay.reshape(
        relay.transpose(relay.reshape(data, (WIDE, 4, WIDE // 4)), [1, 0, 2]), (4, WIDE, WIDE // 4)
    )


def _scores() -> relay.Expr:
    query, key = (_heads(_product(x, seed) + const(WIDE, seed=seed)) for seed in (1, 2))
    return relay.nn.softmax(relay.nn.batch_matmul(query, key))


def _convolution(name: str) -> relay.Expr:
    return relay.nn.conv2d(var(name, 1, 64, 8, 8), const(64, 64, 3, 3), padding=(1, 1))


# Changes that save neither arithmetic nor bytes: the rule, and whether it is applied at all.
CASES: dict[str, tuple[str, Callable[[], relay.Expr], bool]] = {
    "query and key": ("merge_products_of_one_input", _scores, True),
    "each product has a kernel for its reader": (
        "merge_products_of_one_input",
        lambda: relay.Tuple([relay.exp(_product(x, 1)), relay.tanh(_product(x, 2))]),
        False,
    ),
    "products joined": (
        "stack_weights_of_joined_products",
        lambda: _product(
            relay.reshape(
                relay.concatenate([_product(x, 1), _product(x, 2)], axis=1), (2 * WIDE, WIDE)
            ),
            3,
        ),
        True,
    ),
    "parts of a product": (
        "split_to_slices",
        lambda: relay.Tuple(
            [
                relay.nn.batch_matmul(
                    *(relay.reshape(part, (2, WIDE // 2, WIDE // 2)) for part in parts)
                )
                for parts in [list(relay.split(_product(x, 1), 2, axis=1))]
            ]
        ),
        True,
    ),
    "products of two inputs, joined": (
        "join_inputs_of_dense",
        lambda: relay.concatenate(
            [relay.nn.dense(var(name, WIDE, WIDE), left) for name in ("a", "b")], axis=0
        ),
        True,
    ),
    "convolutions of two images, joined": (
        "join_images",
        lambda: relay.concatenate([_convolution("a"), _convolution("b")], axis=0),
        True,
    ),
    "convolutions of two images, with a reader each": (
        "stack_images_of_one_kernel",
        lambda: relay.Tuple([relay.exp(_convolution("a")), relay.tanh(_convolution("b"))]),
        False,
    ),
    "convolutions of two images, compared": (
        "stack_images_of_one_kernel",
        lambda: relay.sigmoid(_convolution("a")) - relay.sigmoid(_convolution("b")),
        False,
    ),
    "transposes around a function": (
        "merge_transposes_around_function",
        lambda: _product(relay.transpose(relay.tanh(relay.transpose(_product(x, 1)))), 2),
        True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_surroundings_tell_what_the_whole_graph_saves(name: str) -> None:
    rule, make, is_applied = CASES[name]
    expr = make()
    before, after, estimated = graph(expr), graph(expr), graph(expr)
    applied = apply_rules(after, [RULES[rule]], count_kernels=_count)
    assert bool(applied) == is_applied
    assert sum(item.gain.kernels for item in applied) == _count(before) - _count(after)
    # Without a planner the estimate takes all of them.
    assert apply_rules(estimated, [RULES[rule]])
    assert is_applied or _count(estimated) > _count(before)


def test_only_what_decides_is_planned() -> None:
    counted: list[Graph] = []

    def count(found: Graph) -> int:
        counted.append(found)
        return _count(found)

    z = var("z", WIDE, WIDE)
    apply_rules(graph(x * z + x * left), ALL_RULES, count_kernels=count)
    apply_rules(
        graph(relay.reshape(relay.reshape(x, (WIDE * WIDE,)), (WIDE // 2, WIDE * 2))),
        ALL_RULES,
        count_kernels=count,
    )
    assert counted == []
    apply_rules(graph(_scores()), ALL_RULES, count_kernels=count)
    assert counted


def test_a_cut_is_small_and_holds_no_weights() -> None:
    cuts: list[Graph] = []

    def count(found: Graph) -> int:
        cuts.append(found)
        return _count(found)

    expr = _scores()
    for _ in range(40):
        expr = relay.tanh(expr)
    apply_rules(graph(expr), [RULES["merge_products_of_one_input"]], count_kernels=count)
    assert cuts
    for cut in cuts:
        assert len(cut.calls()) < 40
        constants = [node for node in cut.topological() if node.op == "constant"]
        assert all(np.size(node.payload) < WIDE * WIDE for node in constants)


def test_layers_that_are_alike_are_planned_once() -> None:
    def planned(layers: int) -> int:
        counted: list[Graph] = []

        def count(found: Graph) -> int:
            counted.append(found)
            return _count(found)

        results = [
            relay.nn.softmax(
                relay.nn.batch_matmul(
                    *(
                        _heads(_product(var(f"x{layer}", WIDE, WIDE), seed + 2 * layer))
                        for seed in (1, 2)
                    )
                )
            )
            for layer in range(layers)
        ]
        expr = graph(*results)
        assert len(apply_rules(expr, ALL_RULES, count_kernels=count)) >= layers
        return len(counted)

    assert planned(3) == planned(1)
