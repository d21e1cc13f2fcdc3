"""Choose Winograd's minimal filtering for blocked 3x3 convolutions that it makes faster."""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.layout.blocked_tensor import (
    CHANNEL_AXIS,
    Blocked,
    block_for,
    blocked_layout,
)
from tvm_fusionx.layout.winograd import (
    SPAN,
    TILE,
    WINDOW,
    WINOGRAD,
    register_winograd,
    transform_weights,
)

# The costs below are in core cycles, for 8-lane vectors and two multiply-adds a cycle.
LANES = 8
PRODUCTS_A_CYCLE = 16
# Measured on Zen 4: one chunk of channels of a tile, transformed in or out, with memory traffic.
TRANSFORM_CYCLES = 220
# Share of the peak that products over few tiles reach.
PRODUCT_EFFICIENCY = 0.85
# Weights beyond the last-level cache's share of a core come from memory at this rate.
CACHED_WEIGHT_BYTES = 4 << 20
MEMORY_BYTES_A_CYCLE = 5
FLOAT_BYTES = 4
# It must win clearly: it rounds worse than the direct sum.
LEAST_GAIN = 1.3


def why_not_winograd(node: Node) -> str | None:
    """Return why a dense ``nn.conv2d`` is computed directly, or None."""
    attrs = node.attrs
    kernel = node.operands[1].shape[2:]
    if kernel != (WINDOW, WINDOW):
        return f"its window is {kernel}"
    if any(int(each) != 1 for each in (*attrs["strides"], *attrs["dilation"], attrs["groups"])):
        return "it is strided, dilated or grouped"
    if node.outputs[0].dtype != "float32":
        return f"its result is {node.outputs[0].dtype}"
    gain = estimated_gain(node)
    if gain < LEAST_GAIN:
        return f"it would gain {gain:.2f} times, less than {LEAST_GAIN}"
    return None


def estimated_gain(node: Node) -> float:
    """Return how many times faster than the direct sum the transforms and products should be."""
    batch, outputs, rows, columns = node.outputs[0].shape
    inputs = node.operands[0].shape[CHANNEL_AXIS]
    direct = batch * outputs * rows * columns * inputs * WINDOW * WINDOW / PRODUCTS_A_CYCLE
    tiles = batch * -(-rows // TILE) * -(-columns // TILE)
    pairs = SPAN * SPAN * inputs * outputs
    product = pairs * tiles / PRODUCTS_A_CYCLE / PRODUCT_EFFICIENCY
    transforms = tiles * (inputs + outputs) / LANES * TRANSFORM_CYCLES
    uncached = max(0, pairs * FLOAT_BYTES - CACHED_WEIGHT_BYTES)
    return direct / (product + transforms + uncached / MEMORY_BYTES_A_CYCLE)


def block_winograd(graph: Graph, node: Node, form: Blocked, vector: int) -> Blocked | None:
    """Return a blocked convolution by minimal filtering, or None when it gains nothing."""
    if why_not_winograd(node) is not None:
        return None
    register_winograd()
    shape = node.outputs[0].shape
    block = block_for(shape[CHANNEL_AXIS], vector)
    attrs = default_attributes(
        WINOGRAD,
        tile_size=TILE,
        strides=(1, 1),
        padding=node.attrs["padding"],
        dilation=(1, 1),
        groups=1,
        channels=shape[CHANNEL_AXIS],
        kernel_size=(WINDOW, WINDOW),
        data_layout=blocked_layout(form.block),
        kernel_layout="OIHW",
        out_layout=blocked_layout(block),
        out_dtype=node.attrs["out_dtype"],
    )
    weights = graph.constant(transform_weights(node.operands[1].array, block))
    value = graph.call(WINOGRAD, [form.value, weights], attrs, name=node.name)
    return Blocked(value, shape)
