"""Small models with channels that are zero or unread, and what becomes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import tvm
from tvm import relay

from tests.relay_modules import EXACT, assert_close, inputs_of, module, var
from tests.verified_kernels import assert_same_numbers
from tvm_fusionx.ecg import Graph, from_relay, to_relay
from tvm_fusionx.ecg.graph import CONSTANT, INPUT, Value
from tvm_fusionx.ecg.numpy_operators import NotInNumpyError, evaluate
from tvm_fusionx.rewrite import Application
from tvm_fusionx.rewrite.channels import drop_dead_channels
from tvm_fusionx.rewrite.channels.following import PRODUCTS

# Of 32 channels 20 are zero: two chunks of eight stay.
CHANNELS, CHUNK = 32, 8
DEAD = (*range(3, 13), *range(20, 30))
LEFT = 16
ONE_AXIS, IMAGE = var("line", 1, 3, 12), var("image", 1, 3, 8, 8)
ROWS = var("rows", 2, 12)


def weights(*shape: int, zero: Iterable[int] = (), axis: int = 0, seed: int = 0) -> relay.Constant:
    """Return random weights, zero at some places of an axis."""
    array = np.random.default_rng([seed, *shape]).standard_normal(shape).astype("float32")
    if zero := tuple(zero):
        np.moveaxis(array, axis, 0)[list(zero)] = 0
    return relay.const(array)


def bias(*shape: int, axis: int, zero: Iterable[int] = DEAD, seed: int = 5) -> relay.Constant:
    """Return what is added to each channel: for the dead ones nothing."""
    return weights(*shape, zero=zero, axis=axis, seed=seed)


def features(image: relay.Expr = IMAGE, zero: Iterable[int] = DEAD, seed: int = 1) -> relay.Expr:
    """Return a layer of 32 channels of an image, some of them zero."""
    zero = tuple(zero)
    channels = image.type_annotation.shape[1] if isinstance(image, relay.Var) else CHANNELS
    kernel = weights(CHANNELS, int(channels), 3, 3, zero=zero, seed=seed)
    layer = relay.nn.conv2d(image, kernel, padding=(1, 1), channels=CHANNELS, kernel_size=(3, 3))
    return relay.nn.relu(layer + bias(CHANNELS, 1, 1, axis=0, zero=zero, seed=seed))


def pointwise(data: relay.Expr, channels: int, into: int, **options: Any) -> relay.Expr:
    """Return a 1x1 convolution with random weights."""
    return relay.nn.conv2d(data, weights(into, channels, 1, 1, **options))


def results(graph: Graph) -> list[tuple[int, ...]]:
    """Return the shapes of what convolutions and products compute, in their order."""
    return [node.outputs[0].shape for node in graph.calls() if node.op in PRODUCTS]


def channels_of(graph: Graph, axis: int = 1) -> list[int]:
    """Return the channels of what convolutions and products compute."""
    return [shape[axis] for shape in results(graph)]


def dropped(*outputs: relay.Expr, chunk: int = CHUNK) -> tuple[Graph, list[Application]]:
    """Drop channels from a model, and check that its numbers and its type stay.

    A second run changes nothing.
    """
    before = module(*outputs)
    graph = from_relay(before["main"])
    applied = drop_dead_channels(graph, chunk)
    after = relay.transform.InferType()(tvm.IRModule.from_expr(to_relay(graph)))
    assert after["main"].checked_type == before["main"].checked_type
    if applied:
        _assert_same_numbers(after, before)
    again = from_relay(after["main"])
    assert not drop_dead_channels(again, chunk)
    return graph, applied


def _assert_same_numbers(found: tvm.IRModule, expected: tvm.IRModule) -> None:
    """Compare two modules in numpy, and what numpy does not know by plain TVM."""
    inputs = inputs_of(expected)
    try:
        numbers = [in_numpy(from_relay(mod["main"]), inputs) for mod in (found, expected)]
    except NotInNumpyError:
        assert_same_numbers(found, expected, EXACT)
    else:
        assert_close(*numbers, EXACT)


def in_numpy(graph: Graph, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """Return what a graph computes."""
    known: dict[Value, np.ndarray] = {}
    for node in graph.topological():
        if node.op == INPUT:
            known[node[0]] = inputs[node.name]
        elif node.op == CONSTANT:
            known[node[0]] = node.payload
        else:
            found = evaluate(node, [known[value] for value in node.operands])
            known.update(zip(node, found, strict=True))
    return [known[value] for value in graph.outputs]
