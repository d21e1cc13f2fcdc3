"""Parts put together and taken apart: concatenations, slices, casts and broadcasts (TASO)."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tvm_fusionx.ecg.construct import slice_axis, transpose, transpose_axes
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.operators import MOVEMENTS
from tvm_fusionx.rewrite.conditions import reading, scalars
from tvm_fusionx.rewrite.rule import (
    Domain,
    Law,
    NumericClass,
    Replacement,
    graph_rule,
    rule,
)
from tvm_fusionx.rewrite.rules.families import BINARY, UNARY
from tvm_fusionx.rewrite.term import Term, call, one_of, op

commutative = partial(rule, law=Law.COMMUTATIVE, numeric_class=NumericClass.EXACT)

A: dict[str, Any] = {"a": (4, 8)}
AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}
_unary = one_of("f", UNARY)
_binary = one_of("g", BINARY)


# ---- slices and concatenations ------------------------------------------------------------------


def slice_range(node: Node) -> tuple[int, int, int] | None:
    """Return axis, start and stop of a slice of one axis by steps of one; None for other calls."""
    if node.op != "strided_slice":
        return None
    source, result = node.operands[0].shape, node.outputs[0].shape
    changed = [axis for axis, extent in enumerate(source) if result[axis] != extent]
    attrs = node.attrs
    if len(changed) != 1 or any(step != 1 for step in attrs.get("strides") or ()):
        return None
    axes = [int(axis) % len(source) for axis in attrs.get("axes") or range(len(attrs["begin"]))]
    start = int(attrs["begin"][axes.index(changed[0])])
    start = max(start + source[changed[0]], 0) if start < 0 else start
    return changed[0], start, start + result[changed[0]]


def _join_axis(node: Node) -> int:
    return int(node.attrs["axis"]) % len(node.outputs[0].shape)


def _joined(graph: Graph, like: Node, values: list[Value], axis: int) -> Value:
    if len(values) == 1:
        return values[0]
    attrs = like.attrs.replace(axis=axis)
    return graph.call("concatenate", values, attrs, grouping=(len(values),), name=like.name)


@graph_rule(
    roots=("strided_slice",),
    example=lambda a: op.strided_slice(call("strided_slice", a, tag="inner")),
    attributes={
        "strided_slice": {"begin": [1], "end": [3], "strides": [1], "axes": [1]},
        "inner": {"begin": [2], "end": [7], "strides": [1], "axes": [1]},
    },
    **A,
)
def merge_slices(graph: Graph, node: Node) -> list[Replacement] | None:
    """slice(slice(x)) -> slice(x) along one axis."""
    source = node.operands[0]
    outer, inner = slice_range(node), slice_range(source.node)
    if outer is None or inner is None or outer[0] != inner[0]:
        return None
    start, stop = (inner[1] + place for place in outer[1:])
    whole = source.node.operands[0]
    return [(node[0], slice_axis(graph, whole, outer[0], start, stop, node.name))]


@graph_rule(
    roots=("strided_slice",),
    example=lambda a, b: (
        op.strided_slice(op.concatenate(a, b)),
        op.exp(call("strided_slice", op.concatenate(b, a), tag="all")),
    ),
    attributes={
        "strided_slice": {"begin": [5], "end": [7], "strides": [1], "axes": [0]},
        "all": {"begin": [0], "end": [4], "strides": [1], "axes": [0]},
    },
    **AB,
)
def slice_of_concatenation(graph: Graph, node: Node) -> list[Replacement] | None:
    """slice(concat(a, b)) -> slice(b) where it lies within b; b itself where it is all of b."""
    join, part = node.operands[0].node, slice_range(node)
    if join.op != "concatenate" or part is None or part[0] != _join_axis(join):
        return None
    axis, start, stop = part
    for piece in join.operands:
        if start >= 0 and stop <= piece.shape[axis]:
            return [(node[0], slice_axis(graph, piece, axis, start, stop, node.name))]
        start, stop = start - piece.shape[axis], stop - piece.shape[axis]
    return None


@graph_rule(
    roots=("concatenate",),
    example=lambda a, b: (
        op.concatenate(op.strided_slice(a), call("strided_slice", a, tag="rest"), b),
        op.exp(op.concatenate(op.strided_slice(b), call("strided_slice", b, tag="next"))),
    ),
    attributes={
        "strided_slice": {"begin": [0], "end": [1], "strides": [1], "axes": [0]},
        "rest": {"begin": [1], "end": [4], "strides": [1], "axes": [0]},
        "next": {"begin": [1], "end": [3], "strides": [1], "axes": [0]},
    },
    **AB,
)
def concatenation_of_slices(graph: Graph, node: Node) -> list[Replacement] | None:
    """concat(slice(a, i..j), slice(a, j..k), b) -> concat(slice(a, i..k), b): what was split."""
    axis = _join_axis(node)
    pieces: list[tuple[Value, int, int]] = []
    for value in node.operands:
        part = slice_range(value.node)
        piece = (value, 0, value.shape[axis])
        if part is not None and part[0] == axis:
            piece = (value.node.operands[0], *part[1:])
        if pieces and pieces[-1][0] is piece[0] and pieces[-1][2] == piece[1]:
            pieces[-1] = (piece[0], pieces[-1][1], piece[2])
        else:
            pieces.append(piece)
    if len(pieces) == len(node.operands):
        return None
    values = [
        slice_axis(graph, value, axis, start, stop, node.name) for value, start, stop in pieces
    ]
    return [(node[0], _joined(graph, node, values, axis))]


@graph_rule(
    roots=("concatenate",),
    example=lambda a, b: op.concatenate(op.concatenate(a, b), a),
    **AB,
)
def merge_concatenations(graph: Graph, node: Node) -> list[Replacement] | None:
    """concat(concat(a, b), c) -> concat(a, b, c) along one axis."""
    axis = _join_axis(node)
    values: list[Value] = []
    for value in node.operands:
        is_inner = value.op == "concatenate" and _join_axis(value.node) == axis
        is_inner = is_inner and graph.has_single_user(value)
        values.extend(value.node.operands if is_inner else [value])
    if len(values) == len(node.operands):
        return None
    return [(node[0], _joined(graph, node, values, axis))]


# ---- functions of joined parts ------------------------------------------------------------------


def _why_not_read(*values: Value) -> str | None:
    """Refuse parts that are computed: a function is computed with them, before they are joined."""
    is_computed = any(value.node.is_call and value.op not in MOVEMENTS for value in values)
    return "a part is computed, and the function with it" if is_computed else None


def _why_not_alike(a: Value, c: Value, b: Value, d: Value) -> str | None:
    if a.shape == c.shape and b.shape == d.shape:
        return None
    return "an operand is broadcast"


@commutative(
    lhs=lambda a, b: op.concatenate(_unary(a), _unary(b)),
    domain=Domain.FLOAT,
    when=reading(["a", "b"], _why_not_read),
    **AB,
)
def join_before_function(a: Term, b: Term) -> Term:
    """concat(f(a), f(b)) -> f(concat(a, b)) for parts that are only read (TASO)."""
    return _unary(op.concatenate(a, b))


@commutative(
    lhs=lambda a, b, s: op.concatenate(_binary(a, s), _binary(b, s)),
    domain=Domain.FLOAT,
    when=(scalars("s"), reading(["a", "b"], _why_not_read)),
    **AB,
    s=2.0,
)
def join_before_number(a: Term, b: Term, s: Term) -> Term:
    """concat(a + s, b + s) -> concat(a, b) + s for a number s; and for -, *, /, max, min (TASO)."""
    return _binary(op.concatenate(a, b), s)


@commutative(
    lhs=lambda a, b, c, d: op.concatenate(_binary(a, c), _binary(b, d)),
    domain=Domain.FLOAT,
    when=(
        reading(["a", "c", "b", "d"], _why_not_alike),
        reading(["a", "b", "c", "d"], _why_not_read),
    ),
    **AB,
    c=(4, 8),
    d=(4, 8),
)
def join_before_binary(a: Term, b: Term, c: Term, d: Term) -> Term:
    """concat(a + c, b + d) -> concat(a, b) + concat(c, d); and for -, *, /, max, min (TASO)."""
    return _binary(op.concatenate(a, b), op.concatenate(c, d))


@graph_rule(
    roots=("concatenate",),
    law=Law.COMMUTATIVE,
    example=lambda a, b: op.concatenate(op.transpose(a), op.transpose(b)),
    attributes={"transpose": {"axes": [1, 0]}},
    **AB,
)
def join_before_transpose(graph: Graph, node: Node) -> list[Replacement] | None:
    """concat(transpose(a), transpose(b)) -> transpose(concat(a, b)) along another axis (TASO)."""
    first = node.operands[0].node
    for value in node.operands:
        if value.op != "transpose" or transpose_axes(value.node) != transpose_axes(first):
            return None
    axes = transpose_axes(first)
    sources = [value.node.operands[0] for value in node.operands]
    joined = _joined(graph, node, sources, axes[_join_axis(node)])
    return [(node[0], transpose(graph, joined, axes, node.name))]


_POOLS = ("nn.avg_pool2d", "nn.max_pool2d", "nn.global_avg_pool2d", "nn.global_max_pool2d")
_pool = one_of("p", _POOLS)
_POOLED_AXES = 2


def _why_not_images_or_channels(match: Any) -> str | None:
    if match.nodes[1].attrs["layout"] == "NCHW" and _join_axis(match.nodes[0]) < _POOLED_AXES:
        return None
    return "windows would reach across the parts"


@commutative(
    lhs=lambda a, b: op.concatenate(_pool(a), _pool(b)),
    domain=Domain.FLOAT,
    when=_why_not_images_or_channels,
    a=(1, 2, 4, 4),
    b=(1, 2, 4, 4),
)
def join_before_pool(a: Term, b: Term) -> Term:
    """concat(pool(a), pool(b)) -> pool(concat(a, b)) along images or channels (TASO)."""
    return _pool(op.concatenate(a, b))


# ---- casts and broadcasts -----------------------------------------------------------------------

_INTEGERS_OF_64_BITS = ("int64", "uint64")


def _keeps_values(source: str, target: str) -> bool:
    """Tell whether every number of one type is one of another; numpy has it wrong for int64."""
    is_rounded = source in _INTEGERS_OF_64_BITS and "float" in target
    return not is_rounded and np.can_cast(source, target, "safe")


@graph_rule(
    roots=("cast",),
    example=lambda a: op.cast(call("cast", a, tag="inner")),
    attributes={"cast": {"dtype": "float32"}, "inner": {"dtype": "float64"}},
    **A,
)
def merge_casts(graph: Graph, node: Node) -> list[Replacement] | None:
    """cast(cast(x, t), u) -> cast(x, u) where t holds every number of x's type."""
    inner = node.operands[0].node
    if inner.op != "cast" or not _keeps_values(inner.operands[0].dtype, inner.outputs[0].dtype):
        return None
    return [(node[0], graph.call("cast", inner.operands, node.attrs, name=node.name))]


def _why_not_broadcast_anyway(a: Value, b: Value, match: Any) -> str | None:
    if np.broadcast_shapes(a.shape, b.shape) == match.nodes[0].outputs[0].shape:
        return None
    return "the other operand does not have all of the extents"


BROADCAST: dict[str, Any] = {"broadcast_to": {"shape": [4, 8]}}


@commutative(
    lhs=lambda a, b: _binary(op.broadcast_to(a), b),
    when=_why_not_broadcast_anyway,
    attributes=BROADCAST,
    a=(1, 8),
    b=(4, 8),
)
def drop_broadcast_of_first_operand(a: Term, b: Term) -> Term:
    """broadcast(a) + b -> a + b, which broadcasts by itself; and for -, *, /, max, min."""
    return _binary(a, b)


@commutative(
    lhs=lambda a, b: _binary(b, op.broadcast_to(a)),
    when=_why_not_broadcast_anyway,
    attributes=BROADCAST,
    a=(1, 8),
    b=(4, 8),
)
def drop_broadcast_of_second_operand(a: Term, b: Term) -> Term:
    """b - broadcast(a) -> b - a, which broadcasts by itself; and for /."""
    return _binary(b, a)


RULES = (
    merge_slices,
    slice_of_concatenation,
    concatenation_of_slices,
    merge_concatenations,
    merge_casts,
    drop_broadcast_of_first_operand,
    drop_broadcast_of_second_operand,
    join_before_function,
    join_before_number,
    join_before_binary,
    join_before_transpose,
    join_before_pool,
)
