"""A small network whose layers reuse products: as ONNX, and as numpy computes it."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from tvm_fusionx.reuse.choice import ATTRIBUTE, Choice, choices_text
from tvm_fusionx.reuse.clusters import cluster
from tvm_fusionx.reuse.layer import ReuseLayer

Array = np.ndarray[Any, Any]

CHOICES = {
    "conv1": Choice(9, 6, 64, "mean", False, ((0.0,) * 6,) * 3),
    "conv2": Choice(32, 8, 10, "first", True, ((0.0,) * 8,) * 6),
    "fc": Choice(16, 3, 8, "mean", False, ((0.0,) * 3,) * 2),
}


def weights(seed: int = 0) -> dict[str, Array]:
    """Return the constants of the network."""
    draw = np.random.default_rng(seed)
    shapes = {
        **{"w1": (16, 3, 3, 3), "b1": (16,), "w2": (32, 16, 3, 3), "b2": (32,)},
        **{"w3": (32, 20), "b3": (20,), "w4": (20, 12)},
    }
    return {name: draw.standard_normal(shape).astype("float32") for name, shape in shapes.items()}


def images(count: int = 2, seed: int = 1) -> Array:
    """Return images whose patches repeat: steps of a few grey levels."""
    draw = np.random.default_rng(seed)
    coarse = draw.integers(0, 3, (count, 3, 4, 4)).astype("float32")
    return np.repeat(np.repeat(coarse, 3, 2), 3, 3)


def network(choices: dict[str, Choice] | None = None, batch: int = 2) -> Any:
    """Return two convolutions and two products as ONNX, perhaps with choices in the file."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], "conv1", pads=[1] * 4),
        node("Relu", ["c1"], ["r1"], "relu1"),
        node("Conv", ["r1", "w2", "b2"], ["c2"], "conv2", pads=[1] * 4, strides=[2, 2]),
        node("Relu", ["c2"], ["r2"], "relu2"),
        node("GlobalAveragePool", ["r2"], ["p"], "pool"),
        node("Flatten", ["p"], ["f"], "flatten"),
        node("Gemm", ["f", "w3", "b3"], ["g"], "fc"),
        node("Relu", ["g"], ["rg"], "relu3"),
        node("MatMul", ["rg", "w4"], ["y"], "fc2"),
    ]
    graph = helper.make_graph(
        nodes,
        "reuse",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 12])],
        [numpy_helper.from_array(array, name) for name, array in weights().items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    if choices is not None:
        helper.set_model_props(model, {ATTRIBUTE: choices_text(choices)})
    return model


def _layer(name: str, data: Array, weight: Array, bias: Array, window: Any) -> Array:
    """Return a layer's result, those below zero cut."""
    choice = CHOICES[name]
    images_, channels, height, width = data.shape
    outputs = weight.shape[0]
    layer = ReuseLayer.of((images_, 1, height, width, channels), window, (outputs,) * 2, choice)
    matrix = weight.transpose(2, 3, 1, 0).reshape(-1, outputs)
    made = cluster(layer, data, matrix, choice.projections(), choice.threshold_array())
    result: Array = np.maximum(made.result + bias[:, None, None], 0)
    return result


def expected(x: Array) -> Array:
    """Return what the network with :data:`CHOICES` computes, by numpy."""
    held = weights()
    kernel, pad = (3, 3), (1, 1, 1, 1)
    one = (1, 1)
    first = _layer("conv1", x, held["w1"], held["b1"], (kernel, one, one, pad))
    second = _layer("conv2", first, held["w2"], held["b2"], (kernel, (2, 2), one, pad))
    pooled = second.mean((2, 3)).T[None, :, :, None]
    product = held["w3"].T[:, :, None, None]
    third = _layer("fc", pooled, product, held["b3"], (one, one, one, (0,) * 4))
    result: Array = third[0, :, :, 0].T @ held["w4"]
    return result
