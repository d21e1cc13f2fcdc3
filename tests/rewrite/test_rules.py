"""Rules in Python on graphs of Relay, with the operators that are left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import EXACT, REASSOCIATING, assert_close, const, graph, var
from tests.rewrite.rule_examples import draw, evaluate
from tvm_fusionx.ecg import Graph
from tvm_fusionx.rewrite import ALL_RULES, NumericClass, Rule
from tvm_fusionx.rewrite.cost import cost_of
from tvm_fusionx.rewrite.engine import apply_rules

RULES = {rule.name: rule for rule in ALL_RULES}

x, y = var("x", 4, 8), var("y", 4, 8)
n, m = var("n", 4, 8, dtype="int32"), var("m", 4, 8, dtype="int32")
cube, batch = var("cube", 2, 3, 4), var("batch", 2, 4, 8)
image, planes = var("image", 1, 4, 8, 8), var("planes", 1, 4, 1, 8)
kernel = const(6, 4, 3, 3, seed=1)


def _tolerance(rule: Rule) -> float:
    return EXACT if rule.numeric_class is NumericClass.EXACT else REASSOCIATING


def _operators(found: Graph) -> list[str]:
    return [node.op for node in found.calls()]


# ---- rules in Python --------------------------------------------------------------------------


def _fan_out(*weights: relay.Expr) -> relay.Expr:
    return relay.Tuple([relay.nn.dense(x, weight) for weight in weights])


def _query_key_value() -> relay.Expr:
    out = []
    for seed in range(3):
        product = relay.nn.dense(x, const(6, 8, seed=seed)) + const(6, seed=9 + seed)
        out.append(relay.reshape(product, (4, 2, 3)))
    return relay.Tuple(out)


def _biased_conv() -> relay.Expr:
    return (relay.nn.conv2d(image, kernel) + const(6, 1, 1)) * const(1, 6, 1, 1, seed=3)


def _narrowed(wide: relay.Expr, weight: relay.Expr) -> relay.Expr:
    return relay.Tuple([relay.nn.relu(wide), relay.nn.conv2d(wide, weight)])


# Rule -> graphs, each with the operators that are left.
REWRITTEN: dict[str, list[tuple[Callable[[], relay.Expr], list[str]]]] = {
    "merge_transposes": [
        (
            lambda: relay.exp(relay.transpose(relay.transpose(cube, [1, 2, 0]), [0, 2, 1])),
            ["transpose", "exp"],
        ),
        (lambda: relay.transpose(relay.transpose(cube, [1, 2, 0]), [2, 0, 1]), []),
        (lambda: relay.exp(relay.transpose(cube, [0, 1, 2])), ["exp"]),
    ],
    "merge_reshapes": [
        (
            lambda: relay.squeeze(relay.expand_dims(relay.reshape(cube, (6, 4)), 1)),
            ["reshape"],
        ),
        (lambda: relay.exp(relay.reshape(cube, (2, 3, 4))), ["exp"]),
        (lambda: relay.reshape(relay.nn.batch_flatten(cube), (2, 3, 4)), []),
    ],
    "transpose_as_reshape": [
        (lambda: relay.transpose(planes, [0, 2, 1, 3]), ["reshape"]),
        (lambda: relay.transpose(var("row", 1, 5)), ["reshape"]),
    ],
    "drop_no_operation": [
        (lambda: relay.exp(relay.strided_slice(x, [0, 0], [4, 8])), ["exp"]),
        (lambda: relay.exp(relay.cast(x, "float32")), ["exp"]),
        (lambda: relay.exp(relay.nn.pad(x, ((0, 0), (0, 0)))), ["exp"]),
        (lambda: relay.exp(relay.broadcast_to(x, (4, 8))), ["exp"]),
        (lambda: relay.exp(relay.concatenate([x], axis=0)), ["exp"]),
        (lambda: relay.exp(relay.tile(x, (1, 1))), ["exp"]),
        (lambda: relay.exp(relay.copy(x)), ["exp"]),
    ],
    "split_to_slices": [
        (
            lambda: relay.Tuple(list(relay.split(x, [2, 5], axis=-1))),
            ["strided_slice", "strided_slice", "strided_slice"],
        ),
        (lambda: relay.exp(relay.split(x, 2, axis=0)[1]), ["strided_slice", "exp"]),
    ],
    "drop_neutral_operand": [
        (lambda: relay.exp(x + relay.const(np.zeros(8, "float32"))), ["exp"]),
        (lambda: relay.exp(relay.const(0.0) + x), ["exp"]),
        (lambda: relay.exp(x - relay.const(0.0)), ["exp"]),
        (lambda: relay.exp(relay.const(1.0) * x), ["exp"]),
        (lambda: relay.exp(x / relay.const(1.0)), ["exp"]),
        (lambda: relay.abs(n + relay.const(0)), ["abs"]),
    ],
    "divide_by_constant": [
        (lambda: x / relay.const(3.0), ["multiply"]),
        (lambda: x / (relay.abs(const(8)) + relay.const(0.1)), ["multiply"]),
    ],
    "small_powers": [
        (lambda: relay.exp(relay.power(x, relay.const(1.0))), ["exp"]),
        (lambda: relay.power(x, relay.const(2.0)), ["multiply"]),
        (lambda: relay.power(x, relay.const(3.0)), ["multiply", "multiply"]),
        (lambda: relay.power(relay.abs(x), relay.const(0.5)), ["abs", "sqrt"]),
        (lambda: relay.power(relay.abs(x), relay.const(-0.5)), ["abs", "rsqrt"]),
    ],
    "monotone_after_max_pool": [
        (
            lambda: relay.nn.max_pool2d(
                relay.nn.relu(image), (3, 3), strides=(2, 2), padding=(1, 1), ceil_mode=True
            ),
            ["nn.max_pool2d", "nn.relu"],
        ),
    ],
    "product_with_shared_matrix": [
        (lambda: relay.nn.batch_matmul(batch, const(1, 6, 8)), ["reshape", "nn.dense", "reshape"]),
        (
            lambda: relay.nn.batch_matmul(batch, const(1, 8, 6), transpose_b=False),
            ["reshape", "nn.dense", "reshape"],
        ),
    ],
    "matmul_as_dense": [
        (lambda: relay.nn.matmul(x, const(8, 6)), ["nn.dense"]),
    ],
    "stack_skinny_products": [
        (
            lambda: relay.Tuple(
                [relay.nn.dense(var(name, 1, 32), const(32, 32)) for name in ("first", "second")]
            ),
            ["concatenate", "nn.dense", "strided_slice", "strided_slice"],
        ),
        (
            lambda: relay.Tuple(
                [relay.nn.dense(var(name, 1, 32), const(32, 32)) for name in ("1", "2", "3")]
            ),
            ["concatenate", "concatenate", "nn.dense", *["strided_slice"] * 4],
        ),
    ],
    "fold_input_factor_into_kernel": [
        (
            lambda: relay.nn.conv2d(
                relay.nn.pad(image * const(4, 1, 1), ((0, 0), (0, 0), (1, 1), (0, 2))), kernel
            ),
            ["nn.pad", "nn.conv2d"],
        ),
        (
            lambda: relay.nn.conv2d(
                image * relay.const(0.5), const(4, 1, 3, 3), groups=4, channels=4, padding=(1, 1)
            ),
            ["nn.conv2d"],
        ),
    ],
    "fold_input_summand_into_convolution": [
        (
            lambda: relay.nn.conv2d(image + relay.const(0.5), kernel) + const(6, 1, 1),
            ["nn.conv2d", "add"],
        ),
        (
            lambda: relay.nn.conv2d(image + const(4, 1, 1), kernel) + relay.const(2.0),
            ["nn.conv2d", "add"],
        ),
    ],
    "shift_after_convolution": [
        (lambda: relay.nn.conv2d(image + const(4, 1, 1), kernel), ["nn.conv2d", "add"]),
        (
            lambda: relay.nn.conv2d(relay.const(0.5) + image, const(2, 4, 1, 1)),
            ["nn.conv2d", "add"],
        ),
    ],
    "merge_pointwise_kernels": [
        (
            lambda: relay.nn.conv2d(
                relay.nn.conv2d(image, const(8, 4, 1, 1)),
                const(6, 8, 3, 3, seed=1),
                padding=(0, 1, 2, 1),
                strides=(2, 2),
                dilation=(2, 1),
            ),
            ["nn.conv2d"],
        ),
        (
            lambda: _narrowed(relay.nn.conv2d(image, const(8, 4, 1, 1)), const(6, 8, 1, 1, seed=1)),
            ["nn.conv2d", "nn.relu", "nn.conv2d"],
        ),
    ],
    "merge_products_of_one_input": [
        (
            lambda: _fan_out(const(6, 8, seed=1), const(3, 8, seed=2)),
            ["nn.dense", "strided_slice", "strided_slice"],
        ),
        (_query_key_value, ["nn.dense", "add", *["strided_slice"] * 3, *["reshape"] * 3]),
    ],
    "fold_factor_into_weights": [
        (_biased_conv, ["nn.conv2d", "add"]),
        (lambda: relay.nn.conv2d(image, kernel) * relay.const(0.5), ["nn.conv2d"]),
        (lambda: const(6) * relay.nn.dense(x, const(6, 8)), ["nn.dense"]),
        (
            lambda: (
                relay.nn.conv2d(image, const(4, 1, 3, 3), groups=4, channels=4) * const(4, 1, 1)
            ),
            ["nn.conv2d"],
        ),
        (
            lambda: (
                relay.nn.conv2d_transpose(
                    image, const(4, 6, 2, 2), channels=6, kernel_size=(2, 2), strides=(2, 2)
                )
                * const(6, 1, 1)
            ),
            ["nn.conv2d_transpose"],
        ),
    ],
}


def test_every_rule_in_python_has_an_example() -> None:
    assert {rule.name for rule in ALL_RULES if not rule.samples} <= set(REWRITTEN)


@pytest.mark.parametrize("name", REWRITTEN)
def test_rule_in_python_holds(name: str) -> None:
    rule = RULES[name]
    for make, left in REWRITTEN[name]:
        expr = make()
        before, after = graph(expr), graph(expr)
        assert {application.rule for application in apply_rules(after, [rule])} == {name}
        assert sorted(_operators(after)) == sorted(left)
        assert cost_of(after.calls()) < cost_of(before.calls())
        assert apply_rules(after, [rule]) == []
        inputs = draw(before)
        assert_close(evaluate(after, inputs), evaluate(before, inputs), _tolerance(rule))


def test_a_reduction_made_from_another_keeps_its_axes() -> None:
    found = graph(relay.prod(relay.exp(cube), axis=[1], keepdims=True))
    assert len(apply_rules(found, [RULES["product_of_exponentials"]])) == 1
    assert found.outputs[0].shape == (2, 1, 4)


def test_products_that_lose_all_axes_are_merged_too() -> None:
    x = var("x", 1, 8)
    scalars = [relay.reshape(relay.nn.dense(x, const(1, 8, seed=seed)), ()) for seed in (1, 2)]
    found = graph(relay.Tuple(scalars))
    apply_rules(found, [RULES["merge_products_of_one_input"]])
    assert [node.op for node in found.calls()].count("nn.dense") == 1


def test_parts_of_merged_products_keep_their_types() -> None:
    found = graph(_query_key_value())
    apply_rules(found, [RULES["merge_products_of_one_input"]])
    assert [value.shape for value in found.outputs] == [(4, 2, 3)] * 3
