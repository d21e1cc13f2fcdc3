"""Structural rules: index arithmetic instead of data movement."""

from __future__ import annotations

import numpy as np

from tvm_fusionx.ecg.construct import reshape, slice_axis, transpose, transpose_axes
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.operators import REORGANIZE
from tvm_fusionx.rewrite.matching import is_filled_with
from tvm_fusionx.rewrite.rule import (
    NumericClass,
    Replacement,
    graph_rule,
    non_negative,
)
from tvm_fusionx.rewrite.term import call, op

# Reshapes by another name, whose result is the operand with another shape.
_RESHAPES = ("reshape", "squeeze", "expand_dims", "nn.batch_flatten")


@graph_rule(
    roots=("transpose",),
    example=lambda a: op.transpose(call("transpose", a, tag="inner")),
    attributes={"transpose": {"axes": [0, 2, 1]}, "inner": {"axes": [1, 2, 0]}},
    a=(4, 4, 4),
)
def merge_transposes(graph: Graph, node: Node) -> list[Replacement] | None:
    """transpose(transpose(x, p), q) -> transpose(x, p o q); none if nothing changes place."""
    axes = transpose_axes(node)
    source = node.operands[0]
    if source.op == "transpose":
        inner = transpose_axes(source.node)
        axes = tuple(inner[axis] for axis in axes)
        source = source.node.operands[0]
    elif list(axes) != sorted(axes):
        return None
    return [(node[0], transpose(graph, source, axes, node.name))]


@graph_rule(
    roots=_RESHAPES,
    example=lambda a: op.reshape(call("reshape", a, tag="inner")),
    attributes={"reshape": {"newshape": [2, -1]}, "inner": {"newshape": [-1]}},
    a=(4, 8),
)
def merge_reshapes(graph: Graph, node: Node) -> list[Replacement] | None:
    """reshape(reshape(x)) -> reshape(x), by any of their names; none if none is needed."""
    source = node.operands[0]
    while source.op in _RESHAPES:
        source = source.node.operands[0]
    if source is node.operands[0] and source.shape != node.outputs[0].shape:
        return None
    return [(node[0], reshape(graph, source, node.outputs[0].shape, node.name))]


@graph_rule(
    roots=("transpose",),
    example=lambda a: op.transpose(a),
    attributes={"transpose": {"axes": [0, 2, 1]}},
    a=(4, 1, 8),
)
def transpose_as_reshape(graph: Graph, node: Node) -> list[Replacement] | None:
    """transpose(x) -> reshape(x) where only axes of one element change place."""
    shape = node.operands[0].shape
    moved = [axis for axis in transpose_axes(node) if shape[axis] > 1]
    if moved != sorted(moved):
        return None
    return [(node[0], reshape(graph, node.operands[0], node.outputs[0].shape, node.name))]


@graph_rule(
    roots=("strided_slice", "broadcast_to", "cast", "nn.pad", "concatenate", "tile", "copy"),
    example=lambda a: op.strided_slice(a),
    attributes={"strided_slice": {"begin": [0], "end": [64], "strides": [1], "axes": [0]}},
    a=(4, 8),
)
def drop_no_operation(graph: Graph, node: Node) -> list[Replacement] | None:
    """f(x) -> x where f is a slice of everything, a cast to the same type, a padding by nothing."""
    source = node.operands[0]
    if source.type != node.outputs[0]:
        return None
    if node.op == "strided_slice" and any(step < 0 for step in node.attrs.get("strides") or ()):
        return None
    return [(node[0], source)]


@graph_rule(
    roots=("split",),
    example=lambda a: op.split(a),
    attributes={"split": {"indices_or_sections": [1], "axis": 0}},
    a=(4, 8),
)
def split_to_slices(graph: Graph, node: Node) -> list[Replacement] | None:
    """split(x) -> one slice for each part, which each part's reader can absorb."""
    source = node.operands[0]
    axis = int(node.attrs["axis"]) % len(source.shape)
    out: list[Replacement] = []
    start = 0
    for value in node:
        stop = start + value.shape[axis]
        out.append((value, slice_axis(graph, source, axis, start, stop, node.name)))
        start = stop
    return out


@graph_rule(
    roots=("add", "subtract", "multiply", "divide"),
    example=lambda a, b: (a + 0.0, op.tanh(b - 0.0), op.exp(a * 1.0), op.sqrt(b / 1.0)),
    a=(4, 8),
    b=(4, 8),
)
def drop_neutral_operand(graph: Graph, node: Node) -> list[Replacement] | None:
    """x+0, x-0, x*1, x/1 -> x."""
    neutral = 0.0 if node.op in ("add", "subtract") else 1.0
    sides = (0, 1) if node.op in ("add", "multiply") else (1,)
    for side in sides:
        other = node.operands[1 - side]
        if is_filled_with(node.operands[side], neutral) and other.type == node.outputs[0]:
            return [(node[0], other)]
    return None


@graph_rule(
    roots=("divide",),
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda a: a / 4.0,
    a=(4, 8),
)
def divide_by_constant(graph: Graph, node: Node) -> list[Replacement] | None:
    """x/c -> x*(1/c) for a constant c without zeros."""
    value, divisor = node.operands
    if not divisor.is_constant or not value.type.is_float or bool(np.any(divisor.array == 0)):
        return None
    with np.errstate(over="ignore"):
        inverse = (1.0 / divisor.array.astype("float64")).astype(divisor.dtype)
    if not bool(np.all(np.isfinite(inverse))):
        return None
    return [(node[0], graph.call("multiply", [value, graph.constant(inverse)], name=node.name))]


@graph_rule(
    roots=("power",),
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda a, b: (op.exp(a**1.0), a**2.0, a**3.0, b**0.5, b**-0.5, b**-1.0),
    a=(4, 8),
    b=non_negative(4, 8),
)
def small_powers(graph: Graph, node: Node) -> list[Replacement] | None:
    """x^1 -> x, x^2 -> x*x, x^3 -> x*x*x, x^0.5 -> sqrt(x), x^-0.5 -> rsqrt(x), x^-1 -> 1/x."""
    value, exponent = node.operands
    if value.type != node.outputs[0] or not exponent.is_constant or not value.type.is_float:
        return None
    if is_filled_with(exponent, 1):
        return [(node[0], value)]
    if is_filled_with(exponent, 2):
        return [(node[0], graph.call("multiply", [value, value], name=node.name))]
    if is_filled_with(exponent, _CUBE):
        square = graph.call("multiply", [value, value], name=node.name)
        return [(node[0], graph.call("multiply", [square, value], name=node.name))]
    if is_filled_with(exponent, _ROOT):
        return [(node[0], graph.call("sqrt", [value], name=node.name))]
    if is_filled_with(exponent, -_ROOT):
        return [(node[0], graph.call("rsqrt", [value], name=node.name))]
    if is_filled_with(exponent, -1):
        one = graph.constant(1, value.dtype)
        return [(node[0], graph.call("divide", [one, value], name=node.name))]
    return None


_CUBE = 3
_ROOT = 0.5

assert set(_RESHAPES) <= REORGANIZE

RULES = (
    merge_transposes,
    merge_reshapes,
    transpose_as_reshape,
    drop_no_operation,
    drop_neutral_operand,
    divide_by_constant,
    small_powers,
    split_to_slices,
)
