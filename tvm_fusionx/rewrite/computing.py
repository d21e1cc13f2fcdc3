"""Parts of right sides that only Python can write: shapes and counts of the match at hand."""

from __future__ import annotations

import math

from tvm_fusionx.ecg.construct import reshape
from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.ecg.numpy_operators import reduced_axes
from tvm_fusionx.operators import AXIS_REDUCTIONS
from tvm_fusionx.rewrite.term import computed
from tvm_fusionx.rewrite.writing import Writing


def _reduction(writing: Writing) -> Node:
    node = writing.match.first(AXIS_REDUCTIONS)
    assert node is not None
    return node


def _reduced(writing: Writing, value: Value) -> Value:
    """Return a value that is constant along the reduced axes, without them."""
    node = _reduction(writing)
    if node.attrs.get("keepdims") or not value.shape:
        return value
    rank, axes = len(node.operands[0].shape), reduced_axes(node)
    shape = (1,) * (rank - len(value.shape)) + value.shape
    return reshape(writing.graph, value, [shape[axis] for axis in range(rank) if axis not in axes])


def _count(writing: Writing, value: Value) -> Value:
    """Return the number of elements that the reduction reduces to one, of a value's type."""
    node = _reduction(writing)
    count = math.prod(node.operands[0].shape[axis] for axis in reduced_axes(node))
    return writing.graph.constant(count, value.dtype)


reduced = computed(_reduced)
count_for = computed(_count)
