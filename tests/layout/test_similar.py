"""Layers that are replaced by ones that reuse products, and why others are not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import module, var
from tests.reuse_models import CHOICES, network
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.expressions.similar_products import REUSE, reuse_layer_of
from tvm_fusionx.frontend.from_onnx import from_onnx
from tvm_fusionx.layout import pack_convolutions
from tvm_fusionx.layout.similar import reuse_layer, reuse_similar, why_not_reused
from tvm_fusionx.passes import RewriteGraph
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target

CPU = describe_cpu(resolve_target("llvm -mcpu=znver4 -num-cores=2"))


def _graph() -> Graph:
    mod, _ = from_onnx(network())
    graph = from_relay(RewriteGraph()(mod)["main"])
    pack_convolutions(graph, CPU)
    return graph


def test_bias_and_activation_are_in_the_kernel() -> None:
    graph = _graph()
    assert reuse_similar(graph, CHOICES) == dict.fromkeys(CHOICES)
    found = {node.name: node for node in graph.calls() if node.op == REUSE}
    layers = {name: reuse_layer_of(node.attrs) for name, node in found.items()}
    assert {name: layer.has_relu for name, layer in layers.items()} == dict.fromkeys(CHOICES, True)
    assert [node.op for node in graph.calls() if node.op in ("add", "nn.relu")] == []
    assert [len(found[name].operands[4].array) for name in CHOICES] == [16, 32, 20]


def test_what_others_read_too_stays() -> None:
    graph = _graph()
    (conv,) = (node for node in graph.calls() if node.name == "conv2")
    graph.outputs = (*graph.outputs, conv[0])
    reuse_similar(graph, {"conv2": CHOICES["conv2"]})
    (found,) = (node for node in graph.calls() if node.op == REUSE)
    assert not reuse_layer_of(found.attrs).has_relu
    assert not found.operands[4].array.any()
    assert len(graph.users(found)) == 1


def test_a_choice_of_another_layer_is_refused() -> None:
    told = reuse_similar(_graph(), {"conv1": CHOICES["conv2"], "nowhere": CHOICES["fc"]})
    assert told.keys() == {"conv1"}
    assert "thresholds of 6 segments" in str(told["conv1"])


def _node(body: Any) -> Node:
    graph = from_relay(module(body)["main"])
    pack_convolutions(graph, CPU)
    return next(node for node in graph.calls() if "conv2d" in node.op or "dense" in node.op)


def _conv(channels: int, outputs: int, **attrs: Any) -> Any:
    weight = np.ones((outputs, channels // attrs.get("groups", 1), 1, 1), "float32")
    data = var("x", 1, channels, 5, 5)
    return relay.nn.conv2d(data, relay.const(weight), kernel_size=(1, 1), **attrs)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (_conv(32, 32, groups=2), "its channels are in 2 groups"),
        (relay.nn.dense(var("x", 4, 8), var("w", 6, 8)), "its weights are not constant"),
        (relay.nn.dense(var("x", 4, 8), relay.const(np.ones((3, 8), "float32"))), "3 channels"),
        (
            relay.nn.dense(
                var("x", 4, 8, dtype="float16"), relay.const(np.ones((8, 8), "float16"))
            ),
            "it multiplies float16",
        ),
    ],
)
def test_what_cannot_reuse(body: Any, reason: str) -> None:
    assert reason in str(why_not_reused(_node(body)))


def test_rows_of_a_matrix_are_one_image() -> None:
    node = _node(relay.nn.dense(var("x", 7, 20), relay.const(np.ones((8, 20), "float32"))))
    choice = replace(CHOICES["fc"], length=10)
    layer = reuse_layer(node, choice)
    assert not isinstance(layer, str)
    assert (layer.rows, layer.columns, layer.segment_count) == (7, 20, 2)
    assert layer.is_in_place
