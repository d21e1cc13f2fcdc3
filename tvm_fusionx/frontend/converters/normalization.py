"""Normalizations."""

from __future__ import annotations

from typing import Any

from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.element_types import dtype_of
from tvm_fusionx.frontend.node import Node

EPSILON = 1e-5  # ONNX's default for every normalization
FLOAT = 1  # ONNX's number of float32


@converter("BatchNormalization", through=15, because="TVM ignores training_mode")
def convert_batch_normalization(node: Node) -> Any:
    """Normalize each channel, by given statistics or those of the batch."""
    x, dtype = node.expr(), node.dtype()
    epsilon = float(node.attribute("epsilon", EPSILON))
    scale, shift, mean, variance = (node.expr(i) for i in range(1, 5))
    if node.version < 9 and not node.attribute("spatial", 1):
        raise node.refuse("statistics per channel", "spatial=0")
    if not node.attribute("training_mode", 0):
        result = relay.nn.batch_norm(
            x, scale, shift, mean, variance, axis=1 if node.rank() > 1 else 0, epsilon=epsilon
        )
        return [result[0], *(node.tensor(i) for i in (3, 4, 3, 4))]
    axes = [axis for axis in range(node.rank()) if axis != 1]
    shape = (1, node.shape()[1], *(1,) * (node.rank() - 2))
    now = relay.mean(x, axes, True)
    centered = x - now
    spread = relay.mean(centered * centered, axes, True)
    normal = centered / relay.sqrt(spread + scalar(epsilon, dtype))
    result = normal * reshape(scale, shape) + reshape(shift, shape)
    momentum = float(node.attribute("momentum", 0.9))
    running = [
        old * scalar(momentum, node.dtype(3))
        + reshape(new, (-1,)) * scalar(1 - momentum, node.dtype(3))
        for old, new in ((mean, now), (variance, spread))
    ]
    return [result, *running]


@converter("InstanceNormalization", through=22)
def convert_instance_normalization(node: Node) -> Any:
    """Normalize each channel of each batch entry."""
    x, dtype = node.expr(), node.dtype()
    axes = list(range(2, node.rank()))
    shape = (node.shape()[1], *(1,) * (node.rank() - 2))
    centered, deviation = _center(x, axes, float(node.attribute("epsilon", EPSILON)), dtype)
    return centered / deviation * reshape(node.expr(1), shape) + reshape(node.expr(2), shape)


def _center(x: Any, axes: list[int], epsilon: float, dtype: str) -> tuple[Any, Any]:
    """Return x - mean(x) and the standard deviation over `axes`."""
    mean = relay.mean(x, axes, True)
    variance = relay.variance(x, axes, True, with_mean=mean)
    return x - mean, relay.sqrt(variance + scalar(epsilon, dtype))


@converter("LayerNormalization", through=17)
def convert_layer_normalization(node: Node) -> Any:
    """Normalize over the axes from `axis` on; scale and shift."""
    x, dtype = node.expr(), node.dtype()
    axes = list(range(node.axis(-1), node.rank()))
    epsilon = float(node.attribute("epsilon", EPSILON))
    mean = relay.mean(x, axes, True)
    variance = relay.variance(x, axes, True, with_mean=mean)
    deviation = relay.sqrt(variance + scalar(epsilon, dtype))
    result = (x - mean) / deviation * node.expr(1)
    if node.has(2):
        result = result + node.expr(2)
    statistics = (mean, scalar(1, dtype) / deviation)
    # Kept of this type, whatever the data's; computed in the wider of it and float32.
    stash = dtype_of(int(node.attribute("stash_type", FLOAT)), f"stash_type of {node.name!r}")
    return [
        result,
        *(
            relay.cast(each, stash) if node.wants(place) else None
            for place, each in enumerate(statistics, 1)
        ),
    ]


@converter("GroupNormalization", through=21)
def convert_group_normalization(node: Node) -> Any:
    """Normalize within groups of channels; scale per channel, before opset 21 per group."""
    shape, dtype = node.shape(), node.dtype()
    groups = int(node.attribute("num_groups"))
    grouped = (shape[0], groups, shape[1] // groups, *shape[2:])
    x = reshape(node.expr(), grouped)
    centered, deviation = _center(
        x, list(range(2, len(grouped))), float(node.attribute("epsilon", EPSILON)), dtype
    )
    normal = centered / deviation
    per = groups if node.version < 21 else shape[1]
    ones = (1,) * (len(shape) - 2)
    if per == groups:
        affine = (1, groups, 1, *ones)
        result = normal * reshape(node.expr(1), affine) + reshape(node.expr(2), affine)
        return reshape(result, shape)
    affine = (1, shape[1], *ones)
    return reshape(normal, shape) * reshape(node.expr(1), affine) + reshape(node.expr(2), affine)


@converter("LpNormalization", through=22)
def convert_lp_normalization(node: Node) -> Any:
    """Divide by the 1-norm or 2-norm along an axis; a vector of zeros stays one."""
    x, axis = node.expr(), node.axis(-1)
    if node.attribute("p", 2) == 1:
        norm = relay.sum(relay.abs(x), axis, True)
    else:
        norm = relay.sqrt(relay.sum(x * x, axis, True))
    dtype = node.dtype()
    return x / relay.where(relay.equal(norm, scalar(0, dtype)), scalar(1, dtype), norm)


@converter("LRN", through=13, because="TVM centres an even window on the other side")
def convert_lrn(node: Node) -> Any:
    """X / (bias + alpha / size * sum of squares over neighbouring channels) ** beta."""
    x, dtype, shape = node.expr(), node.dtype(), node.shape()
    size = int(node.attribute("size"))
    before, after = (size - 1) // 2, size // 2
    pads = [(0, 0), (before, after), *[(0, 0)] * (len(shape) - 2)]
    squares = relay.nn.pad(x * x, pads, 0.0)
    parts = [relay.strided_slice(squares, [i], [i + shape[1]], axes=[1]) for i in range(size)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    scale = scalar(node.attribute("alpha", 1e-4) / size, dtype)
    base = scalar(node.attribute("bias", 1.0), dtype) + scale * total
    return x / relay.power(base, scalar(node.attribute("beta", 0.75), dtype))
