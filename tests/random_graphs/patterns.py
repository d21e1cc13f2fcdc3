"""Shapes of real networks, drawn as several nodes at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.random_graphs.builder import GraphBuilder
from tests.random_graphs.rows.windows import pick_image

SQRT_HALF = 0.7071067811865476  # GELU's 1 / sqrt(2)
Pattern = Callable[[GraphBuilder], str]


def scalar(g: GraphBuilder, number: float) -> str:
    """Return a float constant, 0-d or of one element."""
    return g.add_constant(np.array(number if g.chance(0.7) else [number], np.float32))


def reduce_mean(g: GraphBuilder, data: str, axes: list[int]) -> str:
    """Average over axes and keep them, in the form of the graph's opset."""
    if g.opset >= 18:
        return g.add("ReduceMean", [data, g.add_constant(np.array(axes, np.int64))], keepdims=1)[0]
    return g.add("ReduceMean", [data], axes=axes, keepdims=1)[0]


def sequence(g: GraphBuilder) -> str:
    """Return a tensor of batch, tokens and features."""
    return g.pick(
        lambda value: value.rank == 3 and value.dtype == "float32" and value.shape[2] in (4, 8, 12),
        lambda: g.add_input((g.choose((1, 2)), g.choose((1, 3, 5, 8)), g.choose((4, 8, 12)))),
    )


def dense(g: GraphBuilder, data: str, outputs: int) -> str:
    """Multiply by a constant matrix and add a constant bias."""
    inputs = g.shape(data)[-1]
    weight = g.add_constant(g.draw_array((inputs, outputs), "float32", -0.5, 0.5))
    (product,) = g.add("MatMul", [data, weight])
    bias = g.add_constant(g.draw_array((outputs,), "float32", -0.5, 0.5))
    return g.add("Add", [product, bias] if g.chance(0.5) else [bias, product])[0]


def layer_norm(g: GraphBuilder) -> str:
    """Layer norm written out, as exporters wrote it before opset 17."""
    data = sequence(g)
    (centred,) = g.add("Sub", [data, reduce_mean(g, data, [-1])])
    square = (
        g.add("Pow", [centred, scalar(g, 2.0)])
        if g.chance(0.5)
        else g.add("Mul", [centred, centred])
    )
    variance = reduce_mean(g, square[0], [-1])
    (shifted,) = g.add("Add", [variance, scalar(g, 1e-3)])
    (deviation,) = g.add("Sqrt", [shifted])
    (normal,) = g.add("Div", [centred, deviation])
    features = g.shape(data)[-1:]
    (scaled,) = g.add("Mul", [normal, g.add_constant(g.draw_array(features, "float32", 0.5, 1.5))])
    return g.add("Add", [scaled, g.add_constant(g.draw_array(features, "float32", -0.5, 0.5))])[0]


def gelu(g: GraphBuilder) -> str:
    """GELU by erf."""
    data = sequence(g)
    (scaled,) = g.add("Mul", [data, scalar(g, SQRT_HALF)])
    (erf,) = g.add("Erf", [scaled])
    (shifted,) = g.add("Add", [erf, scalar(g, 1.0)])
    (product,) = g.add("Mul", [data, shifted])
    return g.add("Mul", [product, scalar(g, 0.5)])[0]


def attention(g: GraphBuilder) -> str:
    """Self-attention with heads, at times masked, with its residual."""
    data = sequence(g)
    batch, tokens, features = g.shape(data)
    heads = g.choose([n for n in (1, 2, 4) if features % n == 0])
    width = features // heads
    split_shape = g.add_constant(np.array([batch, tokens, heads, width], np.int64))

    def head(order: list[int]) -> str:
        (parted,) = g.add("Reshape", [dense(g, data, features), split_shape], exact=True)
        return g.add("Transpose", [parted], exact=True, perm=order)[0]

    query, key, value = head([0, 2, 1, 3]), head([0, 2, 3, 1]), head([0, 2, 1, 3])
    (scores,) = g.add("MatMul", [query, key])
    operator = g.choose(("Div", "Mul"))
    factor = np.sqrt(width) if operator == "Div" else 1 / np.sqrt(width)
    (scores,) = g.add(operator, [scores, scalar(g, float(factor))])
    if g.chance(0.4):
        mask = np.where(g.rng.random((1, 1, tokens, tokens)) < 0.3, -100.0, 0.0)
        mask[..., 0] = 0  # no row is masked completely
        (scores,) = g.add("Add", [scores, g.add_constant(mask.astype(np.float32))])
    (weights,) = g.add("Softmax", [scores], axis=3)
    (mixed,) = g.add("MatMul", [weights, value])
    (mixed,) = g.add("Transpose", [mixed], exact=True, perm=[0, 2, 1, 3])
    joined_shape = g.add_constant(np.array([batch, tokens, features], np.int64))
    (joined,) = g.add("Reshape", [mixed, joined_shape], exact=True)
    return g.add("Add", [dense(g, joined, features), data])[0]


def feed_forward(g: GraphBuilder) -> str:
    """Two dense layers, an activation between them, and a residual."""
    data = sequence(g)
    (hidden,) = g.add(g.choose(("Relu", "Tanh", "Sigmoid")), [dense(g, data, 16)])
    return g.add("Add", [data, dense(g, hidden, g.shape(data)[-1])])[0]


def conv(g: GraphBuilder, data: str, outputs: int, kernel: int, groups: int = 1) -> str:
    """Convolve and keep the size."""
    channels = g.shape(data)[1]
    shape = (outputs, channels // groups, kernel, kernel)
    operands = [data, g.add_constant(g.draw_array(shape, "float32", -0.4, 0.4))]
    if g.chance(0.3):
        operands.append(g.add_constant(g.draw_array((outputs,), "float32", -0.3, 0.3)))
    return g.add("Conv", operands, kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, group=groups)[
        0
    ]


def batch_norm(g: GraphBuilder, data: str) -> str:
    """Normalise by stored statistics."""
    channels = g.shape(data)[1:2]
    ranges = ((0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.5, 2.0))
    operands = [g.add_constant(g.draw_array(channels, "float32", *bounds)) for bounds in ranges]
    return g.add("BatchNormalization", [data, *operands])[0]


def activation(g: GraphBuilder, data: str) -> str:
    """Apply an activation of image networks; hard swish written out, too."""
    kind = g.choose(("Relu", "Clip", "hard-swish", "Sigmoid", "swish"))
    if kind == "Clip":
        bounds = [g.add_constant(np.array(number, np.float32)) for number in (0, 6)]
        return g.add("Clip", [data, *bounds], exact=True)[0]
    if kind == "hard-swish":
        (gate,) = g.add("HardSigmoid", [data], alpha=1 / 6, beta=0.5)
        return g.add("Mul", [data, gate])[0]
    if kind == "swish":
        (gate,) = g.add("Sigmoid", [data])
        return g.add("Mul", [data, gate])[0]
    return g.add(kind, [data])[0]


def conv_norm_activation(g: GraphBuilder) -> str:
    """Convolution, batch norm, activation."""
    data = pick_image(g)
    outputs = g.choose((2, 4, 8))
    return activation(g, batch_norm(g, conv(g, data, outputs, g.choose((1, 3)))))


def depthwise_separable(g: GraphBuilder) -> str:
    """Depthwise 3x3, then 1x1, each with norm and activation."""
    data = pick_image(g)
    channels = g.shape(data)[1]
    mixed = activation(g, batch_norm(g, conv(g, data, channels, 3, groups=channels)))
    return activation(g, conv(g, mixed, g.choose((2, 4, 8)), 1))


def residual_block(g: GraphBuilder) -> str:
    """Two convolutions around which the input goes."""
    data = pick_image(g)
    channels = g.shape(data)[1]
    (hidden,) = g.add("Relu", [batch_norm(g, conv(g, data, channels, 3))], exact=True)
    (total,) = g.add("Add", [batch_norm(g, conv(g, hidden, channels, 3)), data])
    return g.add("Relu", [total], exact=True)[0]


def squeeze_and_excite(g: GraphBuilder) -> str:
    """Gate every channel by what the whole picture holds."""
    data = pick_image(g)
    channels = g.shape(data)[1]
    pooled = (
        g.add("GlobalAveragePool", [data])[0] if g.chance(0.5) else reduce_mean(g, data, [2, 3])
    )
    (squeezed,) = g.add("Relu", [conv(g, pooled, g.choose((1, 2, 4)), 1)], exact=True)
    gate_kind = g.choose(("Sigmoid", "HardSigmoid"))
    (gate,) = g.add(gate_kind, [conv(g, squeezed, channels, 1)])
    return g.add("Mul", [data, gate])[0]


def channel_shuffle(g: GraphBuilder) -> str:
    """Mix groups of channels by reshape, transpose, reshape."""
    data = g.pick(
        lambda value: value.rank == 4 and value.dtype == "float32" and value.shape[1] % 2 == 0,
        lambda: g.add_input((1, 4, 5, 6)),
    )
    batch, channels, height, width = g.shape(data)
    groups = g.add_constant(np.array([batch, 2, channels // 2, height, width], np.int64))
    (parted,) = g.add("Reshape", [data, groups], exact=True)
    (swapped,) = g.add("Transpose", [parted], exact=True, perm=[0, 2, 1, 3, 4])
    joined = g.add_constant(np.array([batch, channels, height, width], np.int64))
    return g.add("Reshape", [swapped, joined], exact=True)[0]


def feature_pyramid(g: GraphBuilder) -> str:
    """Upsample a coarse picture and add or join it to a fine one."""
    data = pick_image(g, min_size=4)
    batch, channels, height, width = g.shape(data)
    (coarse,) = g.add("MaxPool", [data], exact=True, kernel_shape=[2, 2], strides=[2, 2])
    sizes = g.add_constant(np.array([batch, channels, height, width], np.int64))
    empty = "" if g.opset >= 13 else g.add_constant(np.zeros(0, np.float32))
    (fine,) = g.add(
        "Resize",
        [coarse, empty, empty, sizes],
        exact=True,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )
    if g.chance(0.5):
        return g.add("Add", [fine, data])[0]
    return g.add("Concat", [fine, data], exact=True, axis=1)[0]


def embedding(g: GraphBuilder) -> str:
    """Look up tokens and add positions."""
    tokens, features = g.choose((3, 5, 8)), g.choose((4, 8))
    ids = g.add_input((g.choose((1, 2)), tokens), "int64", 0, 9)
    table = g.add_constant(g.draw_array((10, features), "float32", -1, 1))
    (words,) = g.add("Gather", [table, ids], exact=True)
    positions = g.add_constant(g.draw_array((1, tokens, features), "float32", -1, 1))
    return g.add("Add", [words, positions])[0]


PATTERNS: tuple[Pattern, ...] = (
    layer_norm,
    gelu,
    attention,
    feed_forward,
    conv_norm_activation,
    depthwise_separable,
    residual_block,
    squeeze_and_excite,
    channel_shuffle,
    feature_pyramid,
    embedding,
)
