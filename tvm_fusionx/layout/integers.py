"""Which products have layouts as products of integers."""

from __future__ import annotations

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.layout.batched_integers import why_no_batch
from tvm_fusionx.layout.blocked_convolution import (
    CONV2D,
    WEIGHTS,
    why_not_integer_convolution,
)
from tvm_fusionx.layout.blocked_tensor import CHANNEL_AXIS, UNBLOCKED
from tvm_fusionx.layout.dense import BATCH_MATMUL, DENSE
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.integers import SUM
from tvm_fusionx.rewrite.quantized import is_of_activations


def why_not_integers(node: Node, cpu: Cpu) -> str | None:
    """Return why a product of floats has no kernel as one of integers on `cpu`, or None.

    Parameters
    ----------
    node
        A product whose operands may be made of integers, of floats or with sums of 32 bits.
    cpu
        What runs it.
    """
    if cpu.dot is None:
        return "the processor has no instruction for dot products of integers"
    if cpu.adds_in_words and is_of_activations(node):
        return "both sides may be -128, and two products of those do not fit 16 bits"
    if node.outputs[0].dtype not in ("float32", SUM):
        return f"its result is {node.outputs[0].dtype}"
    channels = node.outputs[0].shape[CHANNEL_AXIS if node.op == CONV2D else -1]
    if channels == 1:
        # A cut of a vector to one element loses its test where an axis of one is dropped.
        return "its one output fills no vector"
    if node.op == CONV2D:
        layouts = node.attrs["data_layout"], node.attrs["kernel_layout"]
        if layouts != (UNBLOCKED, WEIGHTS) or node.attrs["out_layout"] not in ("", UNBLOCKED):
            return f"its layouts are {layouts[0]} and {layouts[1]}"
        return why_not_integer_convolution(node)
    if node.op == BATCH_MATMUL:
        return why_no_batch(node)
    if node.op != DENSE:
        return f"{node.op} of integers has no layout"
    return None
