"""Determinants, by elimination with the largest element of a column as its pivot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.elementwise import scalar
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape
from tvm_fusionx.frontend.converters.slicing import slice_axis
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

# The elimination is unrolled, a dozen operators a row.
MOST_ROWS = 64


def determinants(x: Any, count: int, rows: int, dtype: str) -> Any:
    """Return the determinants of [count, rows, rows], as [count]."""
    zero, one = scalar(0, dtype), scalar(1, dtype)
    result = None
    for size in range(rows, 0, -1):
        column = reshape(slice_axis(x, 2, range(1), size), (count, size))
        # The row of the largest pivot comes first, and the first takes its place.
        best = relay.argmax(relay.abs(column), axis=1, keepdims=True)
        places = constant(np.arange(size, dtype="int32")[None, :])
        is_best = reshape(relay.equal(best, places), (count, size, 1))
        row = relay.sum(relay.where(is_best, x, zero), axis=1, keepdims=True)
        pivot = slice_axis(row, 2, range(1), size)
        is_swap = reshape(relay.greater(best, relay.const(0, "int32")), (count, 1, 1))
        factor = relay.where(is_swap, relay.negative(pivot), pivot)
        result = factor if result is None else result * factor
        if size == 1:
            break
        first = slice_axis(x, 1, range(1), size)
        rest = relay.where(is_best, first, x)
        rest = slice_axis(rest, 1, range(1, size), size)
        # A column of zeros has no pivot; the determinant is zero already.
        divisor = relay.where(relay.equal(pivot, zero), one, pivot)
        factors = slice_axis(rest, 2, range(1), size) / divisor
        x = slice_axis(rest - factors * row, 2, range(1, size), size)
    return reshape(result, (count,))


@converter("Det", through=22)
def convert_det(node: Node) -> Any:
    """Return the determinant of each matrix."""
    shape, dtype = node.shape(), node.dtype()
    if len(shape) < 2 or shape[-1] != shape[-2] or not 0 < shape[-1] <= MOST_ROWS:
        raise node.refuse(f"square matrices of 1 to {MOST_ROWS} rows", f"shape {list(shape)}")
    rows, lead = shape[-1], shape[:-2]
    count = math.prod(lead)
    x = reshape(node.expr(), (count, rows, rows))
    return reshape(determinants(x, count, rows, dtype), lead)
