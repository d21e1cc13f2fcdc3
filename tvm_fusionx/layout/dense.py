"""Matrix products with constant weights, packed at compile time into panels of columns.

``nn.dense`` reads weights ``[N, K]``: a vector of neighbouring columns lies K elements apart.
Packed as ``[N / n, K, n]`` (``nn.contrib_dense_pack``) a panel of n columns streams past in order,
and n is what the register tile of the dot template holds.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.layout.blocked_tensor import reshape
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import SUM, DotInstruction
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.rewrite.word_sums import why_words_overflow
from tvm_fusionx.schedules.parts.lane_tiles import pays_to_lay_rows
from tvm_fusionx.schedules.parts.register_tile import panel_width
from tvm_fusionx.schedules.products.plan import MAX_VECTORS

DENSE = "nn.dense"
MATMUL = "nn.matmul"
BATCH_MATMUL = "nn.batch_matmul"
PACKED = "nn.contrib_dense_pack"

# Packing pads columns with zeros up to this share of the useful ones; beyond, the product stays.
MOST_PADDING = 0.25

DATA_RANK = 2
PRODUCTS = (DENSE, MATMUL, BATCH_MATMUL)


def why_not_constant(node: Node, instruction: DotInstruction | None = None) -> str | None:
    """Return why a matrix product's weights cannot be arranged when it is compiled, or None.

    With an `instruction`, those of integers that it multiplies can.
    """
    if node.op not in PRODUCTS:
        return f"{node.op} is no matrix product"
    data, weights = node.operands
    result = node.outputs[0]
    if not weights.is_constant:
        return "its weights are not constant"
    if instruction is None or result.dtype != SUM:
        if not data.type.is_float or data.dtype != weights.dtype:
            return f"it multiplies {data.dtype} by {weights.dtype}"
        if result.dtype != data.dtype:
            return f"it accumulates {data.dtype} in {result.dtype}"
    elif (data.dtype, weights.dtype) != (instruction.data, instruction.weights):
        return f"no instruction multiplies {data.dtype} by {weights.dtype}"
    elif instruction.adds_in_words and why_words_overflow(by_column(node)) is not None:
        return why_words_overflow(by_column(node))
    if node.attrs.get("transpose_a", False):
        return "its data is transposed"
    if node.op == BATCH_MATMUL and weights.shape[0] != 1:
        return "each matrix of its batch has its own weights"
    return None


def why_not_pack(node: Node, cpu: Cpu) -> str | None:
    """Return why a matrix product keeps its weights as they are, or None."""
    reason = why_not_constant(node, _dot(node, cpu) if node.op in PRODUCTS else None)
    if reason is not None:
        return reason
    columns = node.outputs[0].shape[-1]
    if not _rows(node) or not columns:
        return "it computes nothing"
    width = _panel_width(node, cpu)
    # Unpacked, a product of integers has no instruction: any padding costs less.
    if node.outputs[0].dtype != SUM and -columns % width > MOST_PADDING * columns:
        return f"{columns} columns are too few for a panel of {width}"
    return None


def _dot(node: Node, cpu: Cpu) -> DotInstruction | None:
    """Return what multiplies the data of a product, or what the processor has for bytes."""
    return cpu.dot_for(node.operands[0].dtype) or cpu.dot


def pack_dense(graph: Graph, cpu: Cpu, *, halves: bool = False) -> int:
    """Pack the constant weights of every matrix product of `graph`; return how many were packed.

    Parameters
    ----------
    halves
        Whether panels of floats are of vectors of halves, where a tile of floats has room for them.
    """
    packed = 0
    for node in graph.calls():
        own = _of_halves(node, cpu) if halves else cpu
        if why_not_pack(node, own) is None:
            graph.replace(node[0], _packed(graph, node, own))
            packed += 1
    return packed


def _of_halves(node: Node, cpu: Cpu) -> Cpu:
    """Return a processor with vectors of halves, where panels of such serve `node`; else `cpu`."""
    wide = replace(cpu, lanes=2 * cpu.lanes)
    if node.op not in PRODUCTS or node.outputs[0].dtype == SUM or why_not_pack(node, wide):
        return cpu
    return wide if _panel_width(node, wide) <= MAX_VECTORS * cpu.lanes else cpu


def transpose_weights(graph: Graph) -> int:
    """Turn the constant weights of every product to ``[K, N]``; return how many were turned.

    Work-items of a GPU that compute neighbouring columns then read neighbouring weights.
    """
    turned = 0
    for node in graph.calls():
        is_by_row = node.op == MATMUL and not node.attrs.get("transpose_b", False)
        if not is_by_row and why_not_constant(node) is None:
            graph.replace(node[0], _by_row(graph, node))
            turned += 1
    return turned


def _by_row(graph: Graph, node: Node) -> Value:
    data = node.operands[0]
    shape = node.outputs[0].shape
    weights = graph.constant(np.ascontiguousarray(by_column(node).T))
    columns, rows = shape[-1], _rows(node)
    attrs = default_attributes(
        MATMUL,
        units=columns,
        out_dtype=node.outputs[0].dtype,
        transpose_a=False,
        transpose_b=False,
    )
    matrix = reshape(graph, data, (rows, data.shape[-1]))
    result = graph.call(MATMUL, [matrix, weights], attrs, name=node.name)
    return reshape(graph, result, shape)


def _rows(node: Node) -> int:
    return math.prod(node.outputs[0].shape[:-1])


def _panel_width(node: Node, cpu: Cpu) -> int:
    depth = node.operands[0].shape[-1]
    # Bytes, where integers are summed.
    terms = depth // FLOAT_BYTES if node.outputs[0].dtype == SUM else depth
    rows, columns = _rows(node), node.outputs[0].shape[-1]
    can_lay = node.operands[0].dtype == "float32" and pays_to_lay_rows(rows, columns, cpu)
    return panel_width(columns, rows, cpu, terms, can_lay_rows=can_lay)


def _packed(graph: Graph, node: Node, cpu: Cpu) -> Value:
    data = node.operands[0]
    shape = node.outputs[0].shape
    columns, rows = shape[-1], _rows(node)
    width = _panel_width(node, cpu)
    result_dtype = node.outputs[0].dtype
    array, length = by_column(node), data.shape[-1]
    matrix = reshape(graph, data, (rows, length))
    dot = _dot(node, cpu)
    if dot is not None and result_dtype == SUM:
        depth = dot.depth
        missing = -length % depth
        if missing:
            # What is multiplied by zeros may be anything.
            array = np.pad(array, ((0, 0), (0, missing)))
            matrix = _with_terms(graph, matrix, missing)
        layout = f"NC{width}n{depth}c"
        panels = graph.constant(pack_integers(array, width, depth))
    else:
        layout = f"NC{width}n"
        panels = graph.constant(pack_weights(array, width))
    units = panels.shape[0] * width
    attrs = default_attributes(PACKED, units=units, out_dtype=result_dtype, weight_layout=layout)
    result = graph.call(PACKED, [matrix, panels], attrs, name=node.name)
    if units != columns:
        result = graph.call(
            "strided_slice",
            [result],
            default_attributes(
                "strided_slice",
                begin=(0, 0),
                end=(rows, columns),
                strides=(1, 1),
                axes=None,
                slice_mode="end",
            ),
        )
    return reshape(graph, result, shape)


def _with_terms(graph: Graph, matrix: Value, missing: int) -> Value:
    """Return a matrix with columns of zeros behind its own."""
    attrs = default_attributes("nn.pad", pad_width=((0, 0), (0, missing)), pad_mode="constant")
    return graph.call("nn.pad", [matrix, graph.constant(0, matrix.dtype)], attrs)


def by_column(node: Node) -> np.ndarray:
    """Return the weights as ``[N, K]``."""
    array = node.operands[1].array
    if node.op == BATCH_MATMUL:
        array = array[0]
    is_by_column = node.op == DENSE or bool(node.attrs.get("transpose_b", False))
    return array if is_by_column else array.T


def pack_weights(array: np.ndarray, width: int) -> np.ndarray:
    """Return weights ``[N, K]`` as ``[ceil(N / width), K, width]``, padded with zero columns."""
    columns, depth = array.shape
    padded = np.pad(array, ((0, -columns % width), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, width, depth).transpose(0, 2, 1))


def pack_integers(array: np.ndarray, width: int, depth: int) -> np.ndarray:
    """Return weights ``[N, K]`` as ``[ceil(N / width), K / depth, width, depth]``, padded by zeros.

    Parameters
    ----------
    array
        Integers; `depth` divides K.
    width
        Columns of a panel.
    depth
        Integers that one instruction multiplies and adds.
    """
    columns, length = array.shape
    padded = np.pad(array, ((0, -columns % width), (0, 0)))
    groups = padded.reshape(-1, width, length // depth, depth)
    return np.ascontiguousarray(groups.transpose(0, 2, 1, 3))
