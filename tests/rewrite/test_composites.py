"""However a framework spells a composite, the planner gets its whole body: one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, assert_close, const, graph, module, var
from tests.rewrite.rule_examples import draw, evaluate
from tvm_fusionx.fusion import PlannerOptions
from tvm_fusionx.passes.fuse_by_mapping import fuse_module
from tvm_fusionx.passes.rewrite_graph import rewrite_module
from tvm_fusionx.rewrite import rewrite
from tvm_fusionx.rewrite.cost import cost_of

x = var("x", 4, 8)
image = var("image", 1, 2, 4, 4)
half, one, two, three, six = (relay.const(value) for value in (0.5, 1.0, 2.0, 3.0, 6.0))
root = relay.const(math.sqrt(2.0))
epsilon = relay.const(1e-5)
gamma, beta = const(8, seed=1), const(8, seed=2)


def _mean(data: relay.Expr) -> relay.Expr:
    return relay.mean(data, axis=-1, keepdims=True)


def _image_mean(data: relay.Expr) -> relay.Expr:
    return relay.mean(data, axis=[2, 3], keepdims=True)


def _tanh_gelu(cube: relay.Expr) -> relay.Expr:
    inner = (x + cube * relay.const(0.044715)) * relay.const(math.sqrt(2 / math.pi))
    return half * x * (one + relay.tanh(inner))


centred = x - _mean(x)
largest = relay.max(x, axis=-1, keepdims=True)
powers = relay.exp(x - largest)

# Composite -> its spellings, and the calls that are left of the dearest.
SPELLINGS: dict[str, tuple[list[Callable[[], relay.Expr]], int]] = {
    "gelu": (
        [
            lambda: half * x * (one + relay.erf(x / root)),
            lambda: x * (half * (one + relay.erf(x * relay.const(math.sqrt(0.5))))),
            lambda: x * half * (relay.erf(x / root) + one),
            lambda: x * (relay.erf(x / root) * half + half),
            lambda: (x + x * relay.erf(x / root)) * half,
            lambda: x * (one + relay.erf(x / root)) / two,
        ],
        5,
    ),
    "gelu by tanh": (
        [
            lambda: _tanh_gelu(relay.power(x, three)),
            lambda: _tanh_gelu(x * x * x),
        ],
        9,
    ),
    "layer norm": (
        [
            lambda: centred / relay.sqrt(_mean(relay.power(centred, two)) + epsilon) * gamma + beta,
            lambda: centred * relay.rsqrt(_mean(centred * centred) + epsilon) * gamma + beta,
            lambda: (
                centred * relay.divide(one, relay.sqrt(_mean(centred * centred) + epsilon)) * gamma
                + beta
            ),
            lambda: relay.nn.layer_norm(x, gamma, beta),
        ],
        9,
    ),
    "instance norm": (
        [
            lambda: (
                (image - _image_mean(image))
                / relay.sqrt(_image_mean(relay.power(image - _image_mean(image), two)) + epsilon)
            ),
            lambda: relay.nn.instance_norm(
                image, const(2, seed=1) * relay.const(0.0) + one, const(2) * relay.const(0.0)
            ),
        ],
        9,
    ),
    "hard swish": (
        [
            lambda: x * relay.clip(x + three, 0.0, 6.0) / six,
            lambda: x * relay.clip(x / six + half, 0.0, 1.0),
            lambda: x * relay.minimum(relay.nn.relu(x + three), six) / six,
            lambda: x * (relay.minimum(relay.maximum(x + three, relay.const(0.0)), six) / six),
        ],
        4,
    ),
    "sigmoid": (
        [
            lambda: relay.sigmoid(x),
            lambda: relay.divide(one, one + relay.exp(-x)),
            lambda: relay.exp(x) / (relay.exp(x) + one),
            lambda: half + half * relay.tanh(x * half),
        ],
        1,
    ),
    "silu": (
        [
            lambda: x * relay.sigmoid(x),
            lambda: x / (one + relay.exp(-x)),
            lambda: x * relay.divide(one, one + relay.exp(-x)),
        ],
        2,
    ),
    "softmax": (
        [
            lambda: relay.nn.softmax(x),
            lambda: powers / relay.sum(powers, axis=-1, keepdims=True),
            lambda: relay.exp(x) / relay.sum(relay.exp(x), axis=-1, keepdims=True),
            lambda: relay.nn.softmax(x - largest),
        ],
        1,
    ),
    "log softmax": (
        [
            lambda: relay.nn.log_softmax(x),
            lambda: relay.log(relay.nn.softmax(x)),
            lambda: x - relay.log(relay.sum(relay.exp(x), axis=-1, keepdims=True)),
        ],
        1,
    ),
}

CASES = [(name, number) for name, (made, _) in SPELLINGS.items() for number in range(len(made))]


@pytest.mark.parametrize(("name", "number"), CASES, ids=lambda item: str(item))
def test_every_spelling_is_one_kernel(name: str, number: int) -> None:
    make, calls = SPELLINGS[name][0][number], SPELLINGS[name][1]
    mod, _ = rewrite_module(module(make()))
    _, plans = fuse_module(mod, PlannerOptions())
    assert plans["main"].kernels == 1
    assert sum(len(block.nodes) for block in plans["main"].blocks) <= calls


@pytest.mark.parametrize(("name", "number"), CASES, ids=lambda item: str(item))
def test_every_spelling_computes_the_same(name: str, number: int) -> None:
    if number and name not in ("layer norm", "instance norm"):
        first, other = (SPELLINGS[name][0][item]() for item in (0, number))
        found, expected = graph(other), graph(first)
        rewrite(found)
        inputs = draw(expected)
        assert_close(evaluate(found, inputs), evaluate(expected, inputs), REASSOCIATING)


# ---- attention ----------------------------------------------------------------------------------

query, key, value = var("q", 2, 8, 4), var("k", 2, 8, 4), var("v", 2, 4, 8)
scale = relay.const(0.5)


def _attention(scores: relay.Expr) -> relay.Expr:
    return relay.nn.batch_matmul(relay.nn.softmax(scores), value)


ATTENTION: dict[str, Callable[[], relay.Expr]] = {
    "on the query": lambda: _attention(relay.nn.batch_matmul(query * scale, key)),
    "on the key": lambda: _attention(relay.nn.batch_matmul(query, key * scale)),
    "on the scores": lambda: _attention(relay.nn.batch_matmul(query, key) * scale),
    "on the scores, divided": lambda: _attention(relay.nn.batch_matmul(query, key) / two),
    "on both": lambda: _attention(
        relay.nn.batch_matmul(
            query * relay.const(math.sqrt(0.5)), key * relay.const(math.sqrt(0.5))
        )
    ),
}


@pytest.mark.parametrize("place", ATTENTION)
def test_the_scale_of_attention_ends_in_one_place(place: str) -> None:
    found, expected = graph(ATTENTION[place]()), graph(ATTENTION["on the query"]())
    rewrite(found)
    assert sorted(node.op for node in found.calls()) == [
        "multiply",
        "nn.batch_matmul",
        "nn.batch_matmul",
        "nn.softmax",
    ]
    assert cost_of(found.calls()) == cost_of(expected.calls())
    inputs = draw(found)
    assert_close(evaluate(found, inputs), evaluate(expected, inputs), REASSOCIATING)
