"""However a framework spells a composite, the planner gets its whole body: one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, assert_close, const, graph, module, var
from tests.rewrite.rule_examples import draw, evaluate
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.fusion import PlannerOptions
from tvm_fusionx.passes.fuse_by_mapping import FuseByMapping, fuse_module
from tvm_fusionx.passes.rewrite_graph import planned_kernels, rewrite_module
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

scale, half_scale = relay.const(0.25), relay.const(0.5)
ROWS, HEADS, WIDTH = 128, 4, 16


def _heads(seed: int) -> relay.Expr:
    wide = var("words", ROWS, HEADS * WIDTH)
    made = relay.nn.dense(wide, const(HEADS * WIDTH, HEADS * WIDTH, seed=seed))
    biased = made + const(HEADS * WIDTH, seed=seed + 3)
    return relay.transpose(relay.reshape(biased, (ROWS, HEADS, WIDTH)), [1, 0, 2])


def _inputs(seed: int) -> relay.Expr:
    return var("qkv"[seed - 1], HEADS, ROWS, WIDTH)


Read = Callable[[int], relay.Expr]


def _attention(read: Read, scores: relay.Expr) -> relay.Expr:
    return relay.nn.batch_matmul(relay.nn.softmax(scores), relay.transpose(read(3), [0, 2, 1]))


ATTENTION: dict[str, Callable[[Read], relay.Expr]] = {
    "on the query": lambda read: relay.nn.batch_matmul(read(1) * scale, read(2)),
    "on the key": lambda read: relay.nn.batch_matmul(read(1), read(2) * scale),
    "on the scores": lambda read: relay.nn.batch_matmul(read(1), read(2)) * scale,
    "on the scores, divided": lambda read: (
        relay.nn.batch_matmul(read(1), read(2)) / relay.const(4.0)
    ),
    "on the scores, reshaped": lambda read: relay.reshape(
        relay.reshape(relay.nn.batch_matmul(read(1), read(2)), (1, HEADS, ROWS, ROWS)) * scale,
        (HEADS, ROWS, ROWS),
    ),
    "on both": lambda read: relay.nn.batch_matmul(read(1) * half_scale, read(2) * half_scale),
}


@pytest.mark.parametrize("place", ATTENTION)
def test_the_scale_of_an_attention_ends_in_the_weights(place: str) -> None:
    found, expected = (
        graph(_attention(_heads, ATTENTION[item](_heads))) for item in (place, "on the query")
    )
    inputs = draw(expected)
    wanted = evaluate(expected, inputs)
    for either in (found, expected):
        rewrite(either, count_kernels=planned_kernels)
        assert "multiply" not in {node.op for node in either.calls()}
    assert cost_of(found.calls()) == cost_of(expected.calls())
    assert planned_kernels(found) == planned_kernels(expected)
    assert_close(evaluate(found, inputs), wanted, REASSOCIATING)


@pytest.mark.parametrize("place", ATTENTION)
def test_the_scale_of_an_attention_on_inputs_costs_no_kernel(place: str) -> None:
    mod = module(_attention(_inputs, ATTENTION[place](_inputs)))
    before, after = (
        fuse_module(form, FuseByMapping(TARGET).planner_options())[1]["main"].kernels
        for form in (mod, rewrite_module(mod)[0])
    )
    assert after <= before
    assert after == 1


# ---- batch norms, scales and biases -------------------------------------------------------------

NARROW = 4
shrunk = const(1, NARROW, 1, 1, seed=5)


def _normed(data: relay.Expr, channels: int) -> relay.Expr:
    gain, shift, mean, spread = (const(channels, seed=seed) for seed in range(4))
    return relay.nn.batch_norm(data, gain, shift, mean, relay.exp(spread))[0]


def _convolved(data: relay.Expr, **attributes: object) -> relay.Expr:
    return relay.nn.conv2d(data, const(6, NARROW, 3, 3, seed=7), **attributes)


def _by_channel(data: relay.Expr, **attributes: object) -> relay.Expr:
    kernel = const(NARROW, 1, 3, 3, seed=8)
    return relay.nn.conv2d(data, kernel, groups=NARROW, channels=NARROW, **attributes)


def _widened() -> relay.Expr:
    return relay.nn.conv2d(var("few", 1, 2, 8, 8), const(NARROW, 2, 1, 1, seed=9))


pixels = var("pixels", 1, NARROW, 8, 8)
around = ((0, 0), (0, 0), (1, 1), (1, 1))

# Where it stands, and the calls that are left.
FOLDED: dict[str, tuple[Callable[[], relay.Expr], list[str]]] = {
    "norm after a convolution": (lambda: _normed(_convolved(pixels), 6), ["add", "nn.conv2d"]),
    "norm after a depthwise one": (
        lambda: _normed(_by_channel(pixels), NARROW),
        ["add", "nn.conv2d"],
    ),
    "norm after a product": (
        lambda: _normed(relay.nn.dense(x, const(6, 8)), 6),
        ["add", "nn.dense"],
    ),
    "norm before a convolution": (
        lambda: _convolved(_normed(pixels, NARROW)) + const(6, 1, 1),
        ["add", "nn.conv2d"],
    ),
    "norm before a product": (
        lambda: relay.nn.dense(_normed(x, 8), const(6, 8)) + const(6),
        ["add", "nn.dense"],
    ),
    "scale before a depthwise one": (lambda: _by_channel(pixels * shrunk), ["nn.conv2d"]),
    "scale before zeros that are padded": (
        lambda: _convolved(pixels * shrunk, padding=(1, 1)),
        ["nn.conv2d"],
    ),
    "scale before a padding of zeros": (
        lambda: _convolved(relay.nn.pad(pixels * shrunk, around)),
        ["nn.conv2d"],
    ),
    "scale before a padding of ones": (
        lambda: _convolved(relay.nn.pad(pixels * shrunk, around, 1.0)),
        ["multiply", "nn.conv2d", "nn.pad"],
    ),
    "shift before zeros that are padded": (
        lambda: _convolved(pixels + shrunk, padding=(1, 1)) + const(6, 1, 1),
        ["add", "add", "nn.conv2d"],
    ),
    "pointwise layer and its shift before a layer without one": (
        lambda: _convolved(_widened() + const(NARROW, 1, 1)),
        ["add", "nn.conv2d"],
    ),
    "pointwise layer and its shift before a layer with one": (
        lambda: _convolved(_widened() + const(NARROW, 1, 1)) + const(6, 1, 1),
        ["add", "nn.conv2d"],
    ),
    "pointwise layer and its shift before zeros that are padded": (
        lambda: _convolved(_widened() + const(NARROW, 1, 1), padding=(1, 1)),
        ["add", "nn.conv2d", "nn.conv2d"],
    ),
}


@pytest.mark.parametrize("place", FOLDED)
def test_norms_scales_and_shifts_end_in_the_weights(place: str) -> None:
    make, left = FOLDED[place]
    mod = relay.transform.SimplifyInference()(module(make()))
    before = from_relay(relay.transform.InferType()(mod)["main"])
    rewritten, _ = rewrite_module(mod)
    after = from_relay(relay.transform.InferType()(rewritten)["main"])
    assert sorted(node.op for node in after.calls()) == left
    inputs = draw(before)
    assert_close(evaluate(after, inputs), evaluate(before, inputs), REASSOCIATING)
