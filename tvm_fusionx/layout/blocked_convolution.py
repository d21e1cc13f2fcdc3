"""Convolutions in NCHWc, weights packed at compile time."""

from __future__ import annotations

from typing import Any

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.layout.blocked_tensor import (
    CHANNEL_AXIS,
    UNBLOCKED,
    Blocked,
    Convert,
    block_for,
    blocked_layout,
    channels_to_add,
    enter,
    leave,
)
from tvm_fusionx.layout.merged_groups import merge_groups, merge_weights
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import SUM, DotInstruction
from tvm_fusionx.rewrite.word_sums import why_words_overflow
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape
from tvm_fusionx.schedules.byte_tiles.tiling import why_not_tiles

# What minimal filtering can serve: 3x3 windows over chunks that fill its vectors.
WINDOW = 3
FEWEST_LANES = 4

CONV2D = "nn.conv2d"
DENSE_BLOCKED = "nn.contrib_conv2d_NCHWc"
DEPTHWISE_BLOCKED = "nn.contrib_depthwise_conv2d_NCHWc"

WEIGHTS = "OIHW"

# What a depthwise convolution of integers multiplies: bytes less a zero point.
SHORT = "int16"


def why_not_blocked(node: Node, instruction: DotInstruction | None = None) -> str | None:
    """Return why a ``nn.conv2d`` stays in its layout, or None.

    One of integers has a layout where an `instruction` multiplies them.
    """
    attrs = node.attrs
    if attrs["data_layout"] != UNBLOCKED or attrs["kernel_layout"] != WEIGHTS:
        return f"its layouts are {attrs['data_layout']} and {attrs['kernel_layout']}"
    if attrs["out_layout"] not in ("", UNBLOCKED):
        return f"its result's layout is {attrs['out_layout']}"
    if not node.operands[1].is_constant:
        return "its weights are not constant"
    if instruction is not None and sums_integers(node):
        types = tuple(value.dtype for value in node.operands)
        if is_depthwise(node):
            return None if types == (SHORT, SHORT) else f"it multiplies {types[0]} by {types[1]}"
        if types != (instruction.data, instruction.weights):
            return f"no instruction multiplies {types[0]} by {types[1]}"
        if instruction.adds_in_words:
            reason = why_words_overflow(node.operands[1].array)
            if reason is not None:
                return reason
        return why_not_integer_convolution(node)
    if not node.operands[0].type.is_float:
        return f"its data is {node.operands[0].dtype}"
    groups, outputs = int(attrs["groups"]), node.outputs[0].shape[CHANNEL_AXIS]
    if groups == node.operands[0].shape[CHANNEL_AXIS] != 1 and groups != outputs:
        return "it makes several channels of each one"
    return None


def is_depthwise(node: Node) -> bool:
    """Tell whether each output channel of a convolution reads one input channel of its own."""
    channels = {value.shape[CHANNEL_AXIS] for value in (node.operands[0], node.outputs[0])}
    return channels == {int(node.attrs["groups"])} != {1}


def sums_integers(node: Node) -> bool:
    """Tell whether a convolution's sums are 32-bit integers."""
    return node.outputs[0].dtype == SUM


def why_not_integer_convolution(node: Node) -> str | None:
    """Return why a convolution has no layout for integers, or None; its types are not read."""
    channels = node.operands[0].shape[CHANNEL_AXIS]
    if not is_depthwise(node) and int(node.attrs["groups"]) == channels != 1:
        return "it makes several channels of each one"
    return None


def integer_chunk(outputs: int, vector: int, instruction: DotInstruction) -> tuple[int, int]:
    """Return the output channels of a chunk, and how many channels of zeros fill the last one.

    Parameters
    ----------
    outputs
        Output channels.
    vector
        Lanes to fill.
    instruction
        What sums integers: vectors of some numbers of channels.
    """
    lanes = [count for count, _ in instruction.by_lanes]
    block = block_for(outputs, vector)
    # Rows that are paired are cut into vectors later.
    if block in lanes or (instruction.rows > 1 and block % max(lanes) == 0):
        return block, 0
    dividing = [each for each in lanes if outputs % each == 0]
    if dividing:
        return max(dividing), 0
    block = min(lanes, key=lambda each: (-(-outputs // each), each))
    return block, -outputs % block


def block_convolution(
    graph: Graph,
    node: Node,
    blocked: Convert,
    vector: int,
    instruction: DotInstruction | None = None,
    *,
    is_last: bool = False,
    cpu: Cpu | None = None,
) -> Blocked | Value | None:
    """Return a ``nn.conv2d`` in NCHWc, or None when it stays as it is.

    One that `is_last`, whose result nothing reads in blocks, comes back as an image where its
    channels fill vectors only together with channels of zeros. Weights of integers are packed for
    the tiles of `cpu` where these take less time.
    """
    if why_not_blocked(node, instruction) is not None:
        return None
    if instruction is not None and sums_integers(node) and not is_depthwise(node):
        return _block_integers(graph, node, blocked, vector, instruction, cpu)
    if is_depthwise(node):
        return _block_depthwise(graph, node, blocked, vector)
    outputs = node.outputs[0].shape[CHANNEL_AXIS]
    missing = channels_to_add(outputs, vector) if is_last and _is_direct(node) else 0
    if missing:
        return _first_channels(graph, _block_dense(graph, node, blocked, vector, missing), outputs)
    return _block_dense(graph, node, blocked, vector)


def _block_dense(
    graph: Graph, node: Node, blocked: Convert, vector: int, missing: int = 0
) -> Blocked:
    """Return a dense convolution in NCHWc, with so many channels of zeros behind its own."""
    data, weights = node.operands
    groups = int(node.attrs["groups"])
    batch, outputs, *pixels = node.outputs[0].shape
    shape = (batch, outputs + missing, *pixels)
    array = np.pad(weights.array, ((0, missing), (0, 0), (0, 0), (0, 0)))
    block = block_for(shape[CHANNEL_AXIS] // groups, vector)
    form = blocked(data)
    if form is not None and (form.channels // groups) % form.block:
        data, form = leave(graph, form, data.shape), None
    if form is None:
        form = enter(graph, data, _entering_block(node, vector))
    attrs = node.attrs.replace(
        channels=outputs + missing,
        kernel_size=array.shape[2:],
        data_layout=blocked_layout(form.block),
        kernel_layout=f"OIHW{form.block}i{block}o",
        out_layout=blocked_layout(block),
    )
    packed = graph.constant(pack_weights(array, form.block, block))
    value = graph.call(DENSE_BLOCKED, [form.value, packed], attrs, name=node.name)
    return Blocked(value, shape)


def _first_channels(graph: Graph, form: Blocked, channels: int) -> Value:
    """Return the first channels of a blocked tensor, as an image."""
    attrs = default_attributes(
        "strided_slice",
        begin=(0,),
        end=(channels,),
        strides=(1,),
        axes=(CHANNEL_AXIS,),
        slice_mode="end",
    )
    return graph.call("strided_slice", [leave(graph, form, form.shape)], attrs)


def _is_direct(node: Node) -> bool:
    """Tell whether a convolution without groups is summed directly, not by minimal filtering."""
    return int(node.attrs["groups"]) == 1 and not _is_filterable(node)


def _block_integers(
    graph: Graph,
    node: Node,
    blocked: Convert,
    vector: int,
    instruction: DotInstruction,
    cpu: Cpu | None,
) -> Blocked | Value:
    data, merged = node.operands[0], merge_groups(node, vector, instruction)
    array = merge_weights(node.operands[1].array, merged)
    depth, shape = instruction.depth, node.outputs[0].shape
    outputs = shape[CHANNEL_AXIS]
    # Only what is one group is filled up.
    block, empty = integer_chunk(merged.outputs, vector, instruction)
    form = blocked(data)
    if form is not None and (form.block % depth or merged.inputs % form.block):
        data, form = leave(graph, form, data.shape), None
    if form is None:
        channels, missing = merged.inputs, -merged.inputs % depth
        if missing:
            array = np.pad(array, ((0, 0), (0, missing), (0, 0), (0, 0)))
            data = _with_channels(graph, data, missing)
            channels += missing
        fitting = [each for each in range(depth, vector + 1, depth) if channels % each == 0]
        form = enter(graph, data, max(fitting))
    array = np.pad(array, ((0, empty), (0, 0), (0, 0), (0, 0)))
    groups = form.block // depth
    if cpu is not None and merged.number == 1 and fills_tiles(node, array, block, cpu):
        groups = array.shape[1] // depth
    attrs = node.attrs.replace(
        **{**_sizes(node), "channels": outputs + empty},
        groups=merged.number,
        data_layout=blocked_layout(form.block),
        kernel_layout=f"OIHW{groups}i{block}o{depth}i",
        out_layout=blocked_layout(block),
    )
    packed = graph.constant(pack_integer_weights(array, groups, block, depth))
    value = graph.call(DENSE_BLOCKED, [form.value, packed], attrs, name=node.name)
    made = Blocked(value, (shape[0], outputs + empty, *shape[2:]))
    return _first_channels(graph, made, outputs) if empty else made


def fills_tiles(node: Node, weights: np.ndarray, block: int, cpu: Cpu) -> bool:
    """Tell whether a convolution of bytes is one on tiles, whose weights have one chunk of inputs.

    Parameters
    ----------
    node
        The convolution.
    weights
        Its weights, filled up.
    block
        Channels of a chunk of its result.
    cpu
        What runs it.
    """
    types = tuple(value.dtype for value in node.operands)
    if cpu.tiles is None or cpu.tiles.columns != block or cpu.tiles.name_for(*types) is None:
        return False
    return why_not_tiles(convolution_shape(node, weights.shape[1], weights.shape[0]), cpu) is None


def convolution_shape(node: Node, terms: int, outputs: int) -> ProductShape:
    """Return the shape of a convolution without groups, its channels filled up to so many."""
    batch, _, rows, columns = node.outputs[0].shape
    kernel = node.operands[1].shape[2:]
    (down, along), (apart_down, apart_along) = node.attrs["strides"], node.attrs["dilation"]
    return ProductShape(
        *(batch, rows, columns, terms, outputs),
        kernel=(kernel[0], kernel[1]),
        stride=(int(down), int(along)),
        dilation=(int(apart_down), int(apart_along)),
        gathers=True,
    )


def _with_channels(graph: Graph, data: Value, missing: int) -> Value:
    """Return an image tensor with channels of zeros behind its own."""
    widths = ((0, 0), (0, missing), (0, 0), (0, 0))
    attrs = default_attributes("nn.pad", pad_width=widths, pad_mode="constant")
    return graph.call("nn.pad", [data, graph.constant(0, data.dtype)], attrs)


def _entering_block(node: Node, vector: int) -> int:
    """Return the chunk in which a convolution takes an image that is not blocked.

    A direct sum broadcasts its inputs and never loads them as vectors: chunks of one channel serve
    as well, and an image is such a tensor already. Minimal filtering transforms whole vectors.
    """
    block = block_for(node.operands[0].shape[CHANNEL_AXIS], vector)
    return block if _is_filterable(node) and block >= FEWEST_LANES else 1


def _is_filterable(node: Node) -> bool:
    """Tell whether minimal filtering may compute a convolution."""
    steps = (*node.attrs["strides"], *node.attrs["dilation"])
    return (
        node.operands[1].shape[2:] == (WINDOW, WINDOW)
        and int(node.attrs["groups"]) == 1
        and all(int(each) == 1 for each in steps)
    )


def _block_depthwise(graph: Graph, node: Node, blocked: Convert, vector: int) -> Blocked:
    data, weights = node.operands
    shape = node.outputs[0].shape
    form = blocked(data)
    if form is None:
        form = enter(graph, data, block_for(shape[CHANNEL_AXIS], vector))
    layout = blocked_layout(form.block)
    attrs = node.attrs.replace(
        **_sizes(node),
        data_layout=layout,
        kernel_layout=f"OIHW1i{form.block}o",
        out_layout=layout,
    )
    packed = graph.constant(pack_weights(weights.array, 1, form.block))
    value = graph.call(DEPTHWISE_BLOCKED, [form.value, packed], attrs, name=node.name)
    return Blocked(value, shape)


def _sizes(node: Node) -> dict[str, Any]:
    """Return what ``nn.conv2d`` may leave to the shape of its weights and NCHWc must be told."""
    outputs, _, rows, columns = node.operands[1].shape
    return {"channels": outputs, "kernel_size": (rows, columns)}


def pack_weights(array: np.ndarray, in_block: int, out_block: int) -> np.ndarray:
    """Return weights ``[O, I, h, w]`` as ``[O / o, I / i, h, w, i, o]``, i and o the blocks."""
    outputs, inputs, rows, columns = array.shape
    cut = array.reshape(
        outputs // out_block, out_block, inputs // in_block, in_block, rows, columns
    )
    return np.ascontiguousarray(cut.transpose(0, 2, 4, 5, 3, 1))


def pack_integer_weights(array: np.ndarray, groups: int, block: int, depth: int) -> np.ndarray:
    """Return weights ``[O, I, h, w]`` as ``[O / o, I / i, h, w, i / d, o, d]``.

    Parameters
    ----------
    array
        Integers.
    groups, block, depth
        i / d, o and d.
    """
    outputs, _, rows, columns = array.shape
    cut = array.reshape(outputs // block, block, -1, groups, depth, rows, columns)
    return np.ascontiguousarray(cut.transpose(0, 2, 5, 6, 3, 1, 4))
