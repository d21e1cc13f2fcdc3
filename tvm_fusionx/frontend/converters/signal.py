"""Signal processing."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.linear import matmul
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import transpose
from tvm_fusionx.frontend.converters.slicing import slice_axis
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

AXIS_IS_INPUT_SINCE = 20


@converter("DFT", through=20, because="TVM's kernel does not build")
def convert_dft(node: Node) -> Any:
    """Multiply by the matrix of the transform: exact, and fast for the short lengths models use."""
    shape, dtype = node.shape(), node.dtype()
    rank = len(shape)
    if node.version >= AXIS_IS_INPUT_SINCE:
        axis = int(node.scalar(2)) % rank if node.has(2) else rank - 2
    else:
        axis = node.axis(1)
    is_inverse = bool(node.attribute("inverse", 0))
    size = shape[axis]
    length = int(node.scalar(1)) if node.has(1) else size
    rows = length // 2 + 1 if node.attribute("onesided", 0) else length
    used = min(size, length)
    angle = 2 * np.pi * np.outer(np.arange(used), np.arange(rows)) / length
    cosine, sine = np.cos(angle), np.sin(angle) * (1 if is_inverse else -1)
    if is_inverse:
        cosine, sine = cosine / length, sine / length
    x = slice_axis(node.expr(), axis, range(used), size)
    # Bring the axis to the end, its complex parts just before it: [..., parts, used].
    order = [i for i in range(rank - 1) if i != axis] + [rank - 1, axis]
    lead = tuple(shape[i] for i in order[:-2])
    parts = shape[-1]
    moved = relay.reshape(transpose(x, order), (*lead, parts * used))
    blocks = [[cosine, sine], [-sine, cosine]][:parts]
    matrix = np.block(blocks).astype(dtype)
    product = matmul(moved, (*lead, parts * used), constant(matrix), matrix.shape)
    split = relay.reshape(product, (*lead, 2, rows))
    return transpose(split, np.argsort(order))
