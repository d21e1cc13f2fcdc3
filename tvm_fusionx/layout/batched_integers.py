"""Products of two activations of integers: the right side is put into panels when it is computed.

An instruction multiplies integers that lie side by side, of as many neighbouring columns as a
vector has. Constant weights are packed so when they are compiled (:mod:`tvm_fusionx.layout.dense`);
an activation is moved, an element once, where the product reads it for each row.
"""

from __future__ import annotations

import math

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.relay_attributes import default_attributes
from tvm_fusionx.expressions.integer_products import BATCHED, register_integer_products
from tvm_fusionx.layout.blocked_tensor import reshape
from tvm_fusionx.layout.dense import BATCH_MATMUL
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import SUM, DotInstruction
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.parts.register_tile import panel_width

# Axes of a batch of matrices, of its rows, and of its terms.
BATCH, ROWS, TERMS = range(3)


def why_not_batched(node: Node, instruction: DotInstruction | None) -> str | None:
    """Return why a call is no product of two activations that an instruction multiplies."""
    if node.op != BATCH_MATMUL or node.outputs[0].dtype != SUM:
        return f"{node.op} is no batch of products of integers"
    if instruction is None:
        return "the processor has no instruction for dot products of integers"
    left, right = node.operands
    if (left.dtype, right.dtype) != (instruction.data, instruction.weights):
        return f"no instruction multiplies {left.dtype} by {right.dtype}"
    if instruction.adds_in_words:
        return "both sides may be -128, and two products of those do not fit 16 bits"
    return why_no_batch(node)


def why_no_batch(node: Node) -> str | None:
    """Return why a batch of products has no kernel of integers, whatever it multiplies, or None."""
    if node.attrs.get("transpose_a", False):
        return "its left side is transposed"
    left, right = (value.shape[BATCH] for value in node.operands)
    if left < right:
        return f"its left side is shared by {right} right ones"
    return None


def pack_batched_integers(graph: Graph, cpu: Cpu) -> int:
    """Put the right sides of products of two activations into panels; return how many were."""
    found = [node for node in graph.calls() if why_not_batched(node, cpu.dot) is None]
    for node in found:
        register_integer_products()
        assert cpu.dot is not None
        graph.replace(node[0], _packed(graph, node, cpu, cpu.dot))
    return len(found)


def batched_panel_width(node: Node, cpu: Cpu) -> int:
    """Return the columns of a panel of a product's right side."""
    _, rows, columns = node.outputs[0].shape
    return panel_width(columns, rows, cpu, max(1, node.operands[0].shape[TERMS] // FLOAT_BYTES))


def _packed(graph: Graph, node: Node, cpu: Cpu, dot: DotInstruction) -> Value:
    left, right = node.operands
    if right.shape[BATCH] < left.shape[BATCH]:
        # Rows of all batches meet the same columns.
        left = reshape(graph, left, (1, math.prod(left.shape[:TERMS]), left.shape[TERMS]))
    if not node.attrs["transpose_b"]:
        right = _transposed(graph, right, (BATCH, TERMS, ROWS))
    batch, columns, terms = right.shape
    width = batched_panel_width(node, cpu)
    missing = -terms % dot.depth
    # What is multiplied by zeros may be anything.
    left = _filled(graph, left, 0, missing)
    right = _filled(graph, right, -columns % width, missing)
    _, filled, length = right.shape
    panels = (batch, filled // width, width, length // dot.depth, dot.depth)
    packed = _transposed(graph, reshape(graph, right, panels), (0, 1, 3, 2, 4))
    result = graph.call(BATCHED, [left, packed], name=node.name)
    rows = left.shape[ROWS]
    if filled != columns:
        attrs = default_attributes(
            "strided_slice",
            begin=(0, 0, 0),
            end=(batch, rows, columns),
            strides=(1, 1, 1),
            axes=None,
            slice_mode="end",
        )
        result = graph.call("strided_slice", [result], attrs, name=node.name)
    return reshape(graph, result, node.outputs[0].shape)


def _transposed(graph: Graph, value: Value, axes: tuple[int, ...]) -> Value:
    return graph.call("transpose", [value], {"axes": axes}, name=value.node.name)


def _filled(graph: Graph, value: Value, rows: int, terms: int) -> Value:
    """Return matrices with zeros behind their rows and terms."""
    if not rows and not terms:
        return value
    attrs = default_attributes(
        "nn.pad", pad_width=((0, 0), (0, rows), (0, terms)), pad_mode="constant"
    )
    return graph.call("nn.pad", [value, graph.constant(0, value.dtype)], attrs)
