"""Whole models lose the channels that nothing needs, and compute what they did."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import EXACT, TARGET, assert_close, inputs_of, module, run_plain, var
from tests.rewrite.channels.dead_channels import (
    CHANNELS,
    CHUNK,
    DEAD,
    LEFT,
    ROWS,
    bias,
    channels_of,
    dropped,
    features,
    pointwise,
    weights,
)
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.ecg import Graph, from_relay, to_relay
from tvm_fusionx.passes import RewriteGraph
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.rewrite.channels import drop_dead_channels

C = CHANNELS


def network() -> relay.Expr:
    """Return a network with a residual sum, a depthwise layer, gates, a joint, and a classifier."""
    stem = features()
    depthwise = relay.nn.conv2d(
        stem, weights(C, 1, 3, 3), padding=(1, 1), groups=C, channels=C, kernel_size=(3, 3)
    )
    layer = relay.nn.relu(depthwise + bias(C, 1, 1, axis=0))
    layer = stem + pointwise(layer, C, C, zero=DEAD)
    mean = relay.mean(layer, axis=[2, 3], keepdims=True)
    gate = relay.sigmoid(pointwise(relay.nn.relu(pointwise(mean, C, 8)), 8, C))
    layer = layer * gate
    side = pointwise(layer, C, 16, zero=range(8), seed=7)
    joined = relay.concatenate([layer, relay.nn.max_pool2d(layer, (3, 3), padding=(1, 1)), side], 1)
    rows = relay.nn.batch_flatten(relay.nn.avg_pool2d(joined, (2, 2), strides=(2, 2)))
    return relay.nn.softmax(relay.nn.dense(rows, weights(10, (2 * C + 16) * 16)))


def test_a_network_of_all_kinds_of_layers() -> None:
    found, (applied,) = dropped(network())
    assert channels_of(found) == [LEFT, LEFT, LEFT, 8, LEFT, 8, 10]
    assert applied.rule == "drop_dead_channels"
    dense = next(node for node in found.calls() if node.op == "nn.dense")
    assert dense.operands[1].shape == (10, (2 * LEFT + 8) * 16)


@pytest.mark.slow
def test_a_built_network_computes_the_same() -> None:
    mod = module(network())
    inputs = inputs_of(mod)
    library = fx.build(mod, TARGET)
    assert_close(run_once(library, inputs), run_plain(mod, inputs), EXACT)


def test_denormal_weights_are_dead_once_they_are_flushed() -> None:
    stem = features(zero=())
    kernel = weights(16, C, 1, 1).data.numpy()
    kernel[:, list(DEAD)] = 1e-39
    mod = module(relay.nn.conv2d(stem, relay.const(kernel)))
    assert _layers(RewriteGraph(chunk=CHUNK)(mod)) == [LEFT, 16]
    assert _layers(RewriteGraph(chunk=CHUNK, denormals="keep")(mod)) == [C, 16]


def _layers(mod: tvm.IRModule) -> list[int]:
    return channels_of(from_relay(mod["main"]))


def test_no_channels_go_without_rules() -> None:
    mod = module(pointwise(features(), C, 4))
    assert _layers(RewriteGraph(rules=(), chunk=CHUNK)(mod)) == [C, 4]
    assert _layers(RewriteGraph(chunk=CHUNK)(mod)) == [LEFT, 4]


def test_a_norm_behind_a_layer_is_no_obstacle() -> None:
    """Its factors and summands are constants; the channels go before they are folded, or after."""
    rows = [bias(C, axis=0, seed=seed) for seed in (1, 2)]
    moments = [relay.const(np.zeros(C, "float32")), relay.const(np.ones(C, "float32"))]
    layer = relay.nn.conv2d(var("image", 1, 3, 8, 8), weights(C, 3, 3, 3))
    normed = relay.nn.batch_norm(layer, *rows, *moments)[0]
    found = RewriteGraph(chunk=CHUNK)(module(pointwise(relay.nn.relu(normed), C, 4)))
    assert _layers(found) == [LEFT, 4]


def test_units_of_a_feed_forward_layer_that_are_dead() -> None:
    """As it is exported: rows of a batch in one product, with GELU between two of them."""
    rows = relay.reshape(var("tokens", 2, 6, 12), (12, 12))
    inner = relay.reshape(relay.nn.dense(rows, weights(C, 12, zero=DEAD)), (2, 6, C))
    inner = inner + bias(C, axis=0)
    half = relay.const(np.float32(0.5))
    curve = relay.erf(inner * relay.const(np.float32(0.5**0.5))) + relay.const(np.float32(1))
    inner = relay.reshape(half * (inner * curve), (12, C))
    outer = relay.reshape(relay.nn.dense(inner, weights(12, C)), (2, 6, 12))
    found, _ = dropped(relay.nn.softmax(outer))
    assert channels_of(found) == [LEFT, 12]


def test_what_is_given_and_returned_keeps_its_shape() -> None:
    layer = features()
    _, applied = dropped(layer)
    assert not applied
    found, _ = dropped(relay.nn.relu(layer), pointwise(layer, C, 4))
    assert channels_of(found) == [C, 4]


def test_all_channels_dead_leave_a_chunk() -> None:
    found, _ = dropped(pointwise(features(zero=range(C)), C, 4))
    assert channels_of(found) == [CHUNK, 4]


def test_what_went_and_why_no_more_did_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    span = relay.Span(relay.SourceName("stem/conv"), 0, 0, 0, 0)
    kernel = weights(C, 3, 1, 1, zero=range(11))
    layer = relay.nn.conv2d(var("image", 1, 3, 8, 8), kernel)
    named = relay.Call(layer.op, layer.args, layer.attrs, span=span)
    with caplog.at_level(logging.DEBUG, "tvm_fusionx.rewrite.channels.drop"):
        _, (applied,) = dropped(pointwise(named, C, 4))
        assert applied.nodes == ("stem/conv",)
        assert "stem/conv: 8 of 32 channels go" in caplog.text
        assert (
            "stem/conv: 3 more could go, and stay: the others make no fewer chunks" in caplog.text
        )
        caplog.clear()
        assert not dropped(relay.nn.softmax(relay.nn.relu(named), axis=1))[1]
        said = "stem/conv: 11 channels are zero, and 11 stay: nn.softmax reads them"
        assert said in caplog.text
        caplog.clear()
        other = relay.nn.conv2d(var("image", 1, 3, 8, 8), weights(C, 3, 1, 1, seed=3))
        assert not dropped(pointwise(named + other, C, 4))[1]
        assert "and 11 stay: they are tied to others that are not zero" in caplog.text


@pytest.mark.parametrize("wrong", [{"channels": 5}, {"groups": 7}, {"padding": (9, 9, 9, 9)}])
def test_a_call_that_cannot_be_written_leaves_all_as_it_was(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault of ours must not stop a build: attributes that are not those of what stays."""
    monkeypatch.setattr(
        "tvm_fusionx.rewrite.channels.products._with_channels",
        lambda node, stays, axis: node.attrs.replace(**wrong),
    )
    found, applied = dropped(pointwise(features(), C, 4))
    assert not applied
    assert channels_of(found) == [C, 4]
    assert "channels that nothing needs stay" in caplog.text


def test_integers_stay() -> None:
    kernel = relay.const(np.zeros((C, 12), "int8"))
    layer = relay.nn.dense(relay.cast(ROWS, "int8"), kernel, out_dtype="int32")
    assert not dropped(relay.nn.dense(relay.cast(layer, "float32"), weights(4, C)))[1]


@pytest.mark.parametrize("seed", range(24))
def test_random_networks_compute_the_same(seed: int) -> None:
    """Layers of random kinds, with random channels dead in random ways."""
    found, applied = dropped(_random_network(np.random.default_rng(seed)), chunk=2)
    assert found.outputs[0].shape[1] == 4
    assert applied


def _random_network(draw: np.random.Generator) -> relay.Expr:
    def dead() -> tuple[int, ...]:
        return tuple(np.flatnonzero(draw.random(C) < draw.choice([0.2, 0.6])))

    def conv(data: relay.Expr) -> relay.Expr:
        kernel = weights(C, C, 1, 1, zero=dead(), seed=int(draw.integers(99))).data.numpy()
        kernel[:, list(dead())] = 0
        return relay.nn.conv2d(data, relay.const(kernel))

    def depthwise(data: relay.Expr) -> relay.Expr:
        kernel = weights(C, 1, 3, 3, zero=dead(), seed=int(draw.integers(99)))
        return relay.nn.conv2d(
            data, kernel, padding=(1, 1), groups=C, channels=C, kernel_size=(3, 3)
        )

    def halves(data: relay.Expr) -> relay.Expr:
        parts = relay.split(data, 2, axis=1)
        return relay.concatenate([parts[1], relay.nn.relu(parts[0])], axis=1)

    kinds: list[Any] = [
        conv,
        conv,
        depthwise,
        halves,
        relay.nn.relu,
        relay.sigmoid,
        lambda x: x + bias(C, 1, 1, axis=0, zero=dead()),
        lambda x: relay.nn.max_pool2d(x, (3, 3), padding=(1, 1)),
        lambda x: x + conv(x),
        lambda x: x * relay.sigmoid(conv(relay.mean(x, axis=[2, 3], keepdims=True))),
    ]
    layer = features(zero=dead(), seed=int(draw.integers(99)))
    for number in draw.integers(len(kinds), size=6):
        layer = kinds[number](layer)
    return pointwise(conv(layer), C, 4)


def _zeroed(graph: Graph, share: float) -> int:
    """Make zeros of a share of the channels between the layers of every block, in place.

    Of an expanding layer rows of weights and their bias, of the depthwise one behind it the bias.
    """
    draw = np.random.default_rng(3)
    changed = 0
    dead: set[int] = set()
    for node in graph.calls():
        if node.op != "nn.conv2d":
            continue
        (shift,) = graph.users(node)
        kernel = node.operands[1].array.copy()
        row = shift.operands[1]
        is_depthwise = node.attrs["groups"] > 1
        if not is_depthwise:
            channels = len(kernel)
            is_wide = channels > node.operands[0].shape[1] and channels < 1000
            dead = set(draw.permutation(channels)[: int(share * channels)]) if is_wide else set()
            kernel[list(dead)] = 0
            graph.replace(node.operands[1], graph.constant(kernel))
            changed += bool(dead)
        if dead and row.is_constant:
            moved = row.array.copy()
            moved[list(dead)] = 0
            graph.replace(row, graph.constant(moved))
    return changed


@pytest.mark.slow
def test_a_mobilenet_with_a_third_of_its_channels_dead(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the zoo exports from it")
    exported = fx.zoo.export("mobilenet-v2", tmp_path / "model.onnx")
    imported, params = fx.from_onnx(exported.path)
    plain = RewriteGraph(rules=())(bind_parameters(imported, params))
    graph = from_relay(plain["main"])
    assert _zeroed(graph, 0.3) > 10
    before = relay.transform.InferType()(tvm.IRModule.from_expr(to_relay(graph)))
    inputs = fx.zoo.sample_inputs(exported)
    (applied,) = drop_dead_channels(graph, 8)
    after = relay.transform.InferType()(tvm.IRModule.from_expr(to_relay(graph)))
    assert len(applied.nodes) > 10
    assert_close(run_plain(after, inputs), run_plain(before, inputs), EXACT)
