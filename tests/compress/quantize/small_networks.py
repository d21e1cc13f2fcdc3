"""Small models to quantise, and inputs for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.model_graph import ModelGraph
from tvm_fusionx.compress.quantize.prepare import prepared_graph

ENGINE = "onnxruntime"


def ignore(_: str) -> None:
    """Take a stage and say nothing."""


def residual() -> Any:
    """Return two convolutions, their sum, a pool, a convolution, a mean and a product."""
    layers = Layers(1, 8, 8, 8)
    first = layers.add("Relu", layers.conv("x", 16, 8, 3))
    second = layers.conv(first, 16, 16, 3)
    total = layers.add("Relu", layers.add("Add", first, second))
    pooled = layers.add("MaxPool", total, kernel_shape=[2, 2], strides=[2, 2])
    last = layers.add("Relu", layers.conv(pooled, 16, 16, 1))
    flat = layers.add("Flatten", layers.add("GlobalAveragePool", last))
    return layers.model(layers.add("Gemm", flat, layers.weights(16, 10), layers.weights(10)))


def pictures(count: int = 4, seed: int = 3, shape: tuple[int, ...] = (1, 8, 8, 8)) -> list[Any]:
    """Return inputs of :func:`residual`."""
    generator = np.random.default_rng(seed)
    return [{"x": generator.normal(size=shape).astype("float32")} for _ in range(count)]


def graph_of(model: Any) -> ModelGraph:
    """Return a prepared model with an index."""
    return prepared_graph(model)


def operators(model: Any) -> list[str]:
    """Return the operators of a model in order."""
    return [node.op_type for node in model.graph.node]


def transformer_layer(outlier: float = 60.0, tokens: int = 8, width: int = 32) -> Any:
    """Return a layer of attention behind a norm, one channel of which is an outlier, and its mask.

    The scores of masked tokens are -10,000, and the channel with outliers decides much: the traps
    that calibration by histograms fell into on a BERT (onnxruntime#10571).
    """
    layers = Layers(1, tokens, width)
    generator = np.random.default_rng(5)
    gain = np.ones(width, "float32")
    gain[3] = outlier
    shift = generator.normal(size=width).astype("float32") / 4
    normed = layers.add(
        "LayerNormalization", "x", layers.constant(gain), layers.constant(shift), axis=-1
    )
    query, key, value = (layers.add("MatMul", normed, layers.weights(width, width)) for _ in "qkv")
    turned = layers.add("Transpose", key, perm=[0, 2, 1])
    scores = layers.add("MatMul", query, turned)
    # A row of scores is a few thousand with such an outlier: a softmax of that is one token.
    scaled = layers.add("Mul", scores, layers.constant(np.array(1e-3, "float32")))
    mask = np.zeros((1, 1, tokens), "float32")
    mask[..., tokens // 2 :] = -10000
    weights = layers.add("Softmax", layers.add("Add", scaled, layers.constant(mask)), axis=-1)
    mixed = layers.add("MatMul", weights, value)
    return layers.model(layers.add("MatMul", mixed, layers.weights(width, width)))


def sentences(count: int = 6, tokens: int = 8, width: int = 32) -> list[Any]:
    """Return inputs of :func:`transformer_layer`."""
    return pictures(count, 9, (1, tokens, width))
