"""Laws of matrix products and convolutions, most of them as equations."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tvm_fusionx.ecg.construct import dense, reshape, transpose, transpose_axes
from tvm_fusionx.ecg.fold import LARGEST_FOLDED_BYTES
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.operators import MOVEMENTS
from tvm_fusionx.rewrite.conditions import constants, same_shape, scalars
from tvm_fusionx.rewrite.matching import Match
from tvm_fusionx.rewrite.rule import Law, Replacement, constant, graph_rule, rule
from tvm_fusionx.rewrite.rule import non_negative as never_negative
from tvm_fusionx.rewrite.term import Term, call, computed, op
from tvm_fusionx.rewrite.writing import Writing

distributive = partial(rule, law=Law.DISTRIBUTIVE)
associative = partial(rule, law=Law.ASSOCIATIVE)
commutative = partial(rule, law=Law.COMMUTATIVE)

IMAGE = (1, 2, 4, 4)
KERNEL = (3, 2, 3, 3)


@distributive(
    lhs=lambda x, v, w: op.nn.dense(x, v) + op.nn.dense(x, w), x=(4, 8), v=(6, 8), w=(6, 8)
)
def add_weights_of_dense(x: Term, v: Term, w: Term) -> Term:
    """dense(x, v) + dense(x, w) -> dense(x, v + w): half the products."""
    return op.nn.dense(x, v + w)


@distributive(
    lhs=lambda x, v, w: op.nn.dense(x, v) - op.nn.dense(x, w), x=(4, 8), v=(6, 8), w=(6, 8)
)
def subtract_weights_of_dense(x: Term, v: Term, w: Term) -> Term:
    """dense(x, v) - dense(x, w) -> dense(x, v - w): half the products."""
    return op.nn.dense(x, v - w)


@distributive(
    lhs=lambda x, y, w: op.nn.dense(x, w) + op.nn.dense(y, w), x=(4, 8), y=(4, 8), w=(6, 8)
)
def add_inputs_of_dense(x: Term, y: Term, w: Term) -> Term:
    """dense(x, w) + dense(y, w) -> dense(x + y, w): half the products."""
    return op.nn.dense(x + y, w)


@distributive(
    lhs=lambda x, y, w: op.nn.dense(x, w) - op.nn.dense(y, w), x=(4, 8), y=(4, 8), w=(6, 8)
)
def subtract_inputs_of_dense(x: Term, y: Term, w: Term) -> Term:
    """dense(x, w) - dense(y, w) -> dense(x - y, w): half the products."""
    return op.nn.dense(x - y, w)


BATCHED: dict[str, Any] = {"a": (2, 4, 8), "b": (2, 6, 8), "c": (2, 6, 8)}
BATCHED_INPUTS: dict[str, Any] = {"a": (2, 4, 8), "b": (2, 4, 8), "c": (2, 6, 8)}


@distributive(lhs=lambda a, b, c: op.nn.batch_matmul(a, b) + op.nn.batch_matmul(a, c), **BATCHED)
def add_second_factors(a: Term, b: Term, c: Term) -> Term:
    """a.b + a.c -> a.(b + c) for batches of matrices."""
    return op.nn.batch_matmul(a, b + c)


@distributive(lhs=lambda a, b, c: op.nn.batch_matmul(a, b) - op.nn.batch_matmul(a, c), **BATCHED)
def subtract_second_factors(a: Term, b: Term, c: Term) -> Term:
    """a.b - a.c -> a.(b - c) for batches of matrices."""
    return op.nn.batch_matmul(a, b - c)


@distributive(
    lhs=lambda a, b, c: op.nn.batch_matmul(a, c) + op.nn.batch_matmul(b, c), **BATCHED_INPUTS
)
def add_first_factors(a: Term, b: Term, c: Term) -> Term:
    """a.c + b.c -> (a + b).c for batches of matrices."""
    return op.nn.batch_matmul(a + b, c)


@distributive(
    lhs=lambda a, b, c: op.nn.batch_matmul(a, c) - op.nn.batch_matmul(b, c), **BATCHED_INPUTS
)
def subtract_first_factors(a: Term, b: Term, c: Term) -> Term:
    """a.c - b.c -> (a - b).c for batches of matrices."""
    return op.nn.batch_matmul(a - b, c)


KERNELS: dict[str, Any] = {"x": IMAGE, "v": KERNEL, "w": KERNEL}
IMAGES: dict[str, Any] = {
    "x": IMAGE,
    "y": IMAGE,
    "w": KERNEL,
    "attributes": {"nn.conv2d": {"padding": [1, 1]}},
}


@distributive(
    lhs=lambda x, v, w: op.nn.conv2d(x, v) + op.nn.conv2d(x, w),
    **KERNELS,
)
def add_kernels(x: Term, v: Term, w: Term) -> Term:
    """conv(x, v) + conv(x, w) -> conv(x, v + w): half the products."""
    return op.nn.conv2d(x, v + w)


@distributive(
    lhs=lambda x, v, w: op.nn.conv2d(x, v) - op.nn.conv2d(x, w),
    **KERNELS,
)
def subtract_kernels(x: Term, v: Term, w: Term) -> Term:
    """conv(x, v) - conv(x, w) -> conv(x, v - w): half the products."""
    return op.nn.conv2d(x, v - w)


@distributive(
    lhs=lambda x, y, w: op.nn.conv2d(x, w) + op.nn.conv2d(y, w),
    when=same_shape("x", "y"),
    **IMAGES,
)
def add_images(x: Term, y: Term, w: Term) -> Term:
    """conv(x, w) + conv(y, w) -> conv(x + y, w): half the products."""
    return op.nn.conv2d(x + y, w)


@distributive(
    lhs=lambda x, y, w: op.nn.conv2d(x, w) - op.nn.conv2d(y, w),
    when=same_shape("x", "y"),
    **IMAGES,
)
def subtract_images(x: Term, y: Term, w: Term) -> Term:
    """conv(x, w) - conv(y, w) -> conv(x - y, w): half the products."""
    return op.nn.conv2d(x - y, w)


# ---- one matrix or kernel for two inputs whose results are joined (TASO) ------------------------


def _why_not_joined_along(axis: int, match: Match) -> str | None:
    join = match.nodes[0]
    if int(join.attrs["axis"]) % len(join.outputs[0].shape) == axis:
        return None
    return f"the results are not joined along axis {axis}"


def _why_not_rows_joined(match: Match) -> str | None:
    return _why_not_joined_along(0, match)


def _why_not_batches_of_rows_joined(a: Value, b: Value, match: Match) -> str | None:
    if match.nodes[1].attrs["transpose_a"]:
        return "the rows are columns in memory"
    if a.shape[0] != b.shape[0]:
        return "the batches differ"
    return _why_not_joined_along(1, match)


def _why_not_images_joined(x: Value, y: Value, match: Match) -> str | None:
    if not str(match.nodes[1].attrs["data_layout"]).startswith("N"):
        return "the images of a batch do not lie one behind the other"
    if x.shape[1:] != y.shape[1:]:
        return f"the images are of the sizes {x.shape[1:]} and {y.shape[1:]}"
    return _why_not_joined_along(0, match)


@distributive(
    lhs=lambda x, y, w: op.concatenate(op.nn.dense(x, w), op.nn.dense(y, w)),
    when=_why_not_rows_joined,
    x=(4, 8),
    y=(4, 8),
    w=(6, 8),
)
def join_inputs_of_dense(x: Term, y: Term, w: Term) -> Term:
    """concat(dense(x, w), dense(y, w)) -> dense(concat(x, y), w): w is read once (TASO)."""
    return op.nn.dense(op.concatenate(x, y), w)


@distributive(
    lhs=lambda a, b, c: op.concatenate(op.nn.batch_matmul(a, c), op.nn.batch_matmul(b, c)),
    when=_why_not_batches_of_rows_joined,
    attributes={"concatenate": {"axis": 1}},
    a=(2, 4, 8),
    b=(2, 4, 8),
    c=(2, 6, 8),
)
def join_first_factors(a: Term, b: Term, c: Term) -> Term:
    """concat(a.c, b.c) -> concat(a, b).c for batches of matrices: c is read once (TASO)."""
    return op.nn.batch_matmul(op.concatenate(a, b), c)


@distributive(
    lhs=lambda x, y, w: op.concatenate(op.nn.conv2d(x, w), op.nn.conv2d(y, w)),
    when=_why_not_images_joined,
    **IMAGES,
)
def join_images(x: Term, y: Term, w: Term) -> Term:
    """concat(conv(x, w), conv(y, w)) -> conv(concat(x, y), w): one larger batch (TASO)."""
    return op.nn.conv2d(op.concatenate(x, y), w)


def _why_not_computed(a: Value) -> str | None:
    """Refuse to scale what is only read: that takes a kernel, scaling the product takes none."""
    is_computed = a.node.is_call and a.op not in MOVEMENTS
    return None if is_computed else "the first factor is not computed, only read"


@associative(
    lhs=lambda a, b, s: op.nn.batch_matmul(a, b) * s,
    when=(scalars("s"), _why_not_computed),
    a=never_negative(2, 8, 4),
    b=(2, 8, 4),
    s=2.0,
)
def scale_first_factor(a: Term, b: Term, s: Term) -> Term:
    """(a.b)*s -> (a*s).b for a number s, where a is computed, and smaller than the product."""
    return op.nn.batch_matmul(a * s, b)


@associative(
    lhs=lambda a, b, s: op.nn.batch_matmul(a * s, b),
    when=scalars("s"),
    a=(2, 4, 8),
    b=(2, 4, 8),
    s=2.0,
)
def scale_product(a: Term, b: Term, s: Term) -> Term:
    """(a*s).b -> (a.b)*s for a number s, where the product is smaller than a."""
    return op.nn.batch_matmul(a, b) * s


@associative(
    lhs=lambda a, b, s, t: op.nn.batch_matmul(a * s, b * t),
    when=scalars("s", "t"),
    a=(2, 4, 8),
    b=(2, 6, 8),
    s=2.0,
    t=0.5,
)
def scale_one_factor(a: Term, b: Term, s: Term, t: Term) -> Term:
    """(a*s).(b*t) -> (a*(s*t)).b for numbers: an attention that scales query and key."""
    return op.nn.batch_matmul(a * (s * t), b)


def _why_not_kept(elements: int, first: Value, second: Value) -> str | None:
    size = elements * first.type.bytes // first.type.elements
    if size > max(LARGEST_FOLDED_BYTES, first.type.bytes + second.type.bytes):
        return "the product of the weights is too large to keep"
    return None


def _merged_weights(writing: Writing, first: Value, second: Value) -> Value | str:
    reason = _why_not_kept(first.shape[1] * second.shape[0], first, second)
    if reason is not None:
        return reason
    transposed = transpose(writing.graph, first, (1, 0), writing.name)
    return dense(writing.graph, second, transposed, writing.name)


merged_weights = computed(_merged_weights)
NO_UNITS: dict[str, Any] = {"units": None}


@associative(
    lhs=lambda x, v, w: call("nn.dense", op.nn.dense(x, v), w, tag="second"),
    when=constants("v", "w"),
    x=(4, 8),
    v=constant(6, 8),
    w=constant(5, 6),
)
def merge_dense_weights(x: Term, v: Term, w: Term) -> Term:
    """dense(dense(x, V), W) -> dense(x, W.V) for constants, where that is less work."""
    return call("nn.dense", x, merged_weights(v, w), attrs=NO_UNITS)


def _why_not_pointwise_first(v: Value, match: Match) -> str | None:
    """Refuse groups, other layouts, and a first kernel that reads more than its own pixel."""
    for node in match.nodes:
        attrs = node.attrs
        is_plain = attrs["data_layout"] == "NCHW" and attrs["kernel_layout"] == "OIHW"
        if not is_plain or attrs["out_layout"] not in ("", "NCHW"):
            return "the channels do not lie one behind the other"
        if attrs["groups"] != 1:
            return "the channels are in groups"
    first = match.nodes[1].attrs
    if any(first["padding"]) or any(stride != 1 for stride in first["strides"]):
        return "the first convolution pads or strides"
    return None if v.shape[2:] == (1, 1) else "the first kernel is larger than one pixel"


def _merged_kernels(writing: Writing, first: Value, second: Value) -> Value | str:
    (units, inner, *window), channels = second.shape, first.shape[1]
    reason = _why_not_kept(units * channels * math.prod(window), first, second)
    if reason is not None:
        return reason
    graph, name = writing.graph, writing.name
    matrix = transpose(graph, reshape(graph, first, (inner, channels), name), (1, 0), name)
    # Each pixel of the window is a row of its own, so that one product serves all of them.
    pixels = transpose(graph, second, (0, 2, 3, 1), name)
    merged = dense(graph, reshape(graph, pixels, (-1, inner), name), matrix, name)
    shaped = reshape(graph, merged, (units, *window, channels), name)
    return transpose(graph, shaped, (0, 3, 1, 2), name)


merged_kernels = computed(_merged_kernels)


@associative(
    lhs=lambda x, v, w: op.nn.conv2d(call("nn.conv2d", x, v, tag="pointwise"), w),
    when=(constants("v", "w"), _why_not_pointwise_first),
    x=IMAGE,
    v=constant(5, 2, 1, 1),
    w=constant(3, 5, 3, 3),
)
def merge_pointwise_kernels(x: Term, v: Term, w: Term) -> Term:
    """conv(conv(x, V), W) -> conv(x, W.V) for constants and a 1x1 V, where that is less work."""
    return op.nn.conv2d(x, merged_kernels(v, w))


def _why_not_rows(match: Match) -> str | None:
    mean = match.nodes[0]
    if mean.attrs["axis"] == (0,) and mean.attrs["keepdims"] and not mean.attrs["exclude"]:
        return None
    return "more than the rows are averaged"


@commutative(
    lhs=lambda x, w: op.mean(op.nn.dense(x, w)),
    when=_why_not_rows,
    attributes={"mean": {"axis": [0], "keepdims": True}},
    x=(4, 8),
    w=(6, 8),
)
def mean_of_rows_before_dense(x: Term, w: Term) -> Term:
    """mean(dense(x, W), rows) -> dense(mean(x, rows), W): a sentence's embedding."""
    return op.nn.dense(op.mean(x), w)


@graph_rule(
    roots=("nn.batch_matmul", "nn.matmul"),
    example=lambda a, b, c, d: (
        op.nn.batch_matmul(op.transpose(a), b),
        op.nn.matmul(op.tanh(c), call("transpose", d, tag="matrix")),
    ),
    attributes={"transpose": {"axes": [0, 2, 1]}, "matrix": {"axes": [1, 0]}},
    a=(2, 8, 4),
    b=(2, 6, 8),
    c=(4, 8),
    d=(6, 8),
)
def transpose_into_product(graph: Graph, node: Node) -> list[Replacement] | None:
    """transpose(a).b -> a.b with the flag that reads a by columns (Glow)."""
    rank = len(node.outputs[0].shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    operands, flags = list(node.operands), {}
    for place, flag in enumerate(("transpose_a", "transpose_b")):
        moved = operands[place]
        if moved.op == "transpose" and transpose_axes(moved.node) == swapped:
            operands[place], flags[flag] = moved.node.operands[0], not node.attrs[flag]
    if not flags:
        return None
    return [(node[0], graph.call(node.op, operands, node.attrs.replace(**flags), name=node.name))]


RULES = (
    add_weights_of_dense,
    subtract_weights_of_dense,
    add_inputs_of_dense,
    subtract_inputs_of_dense,
    add_second_factors,
    subtract_second_factors,
    add_first_factors,
    subtract_first_factors,
    add_kernels,
    subtract_kernels,
    add_images,
    subtract_images,
    join_inputs_of_dense,
    join_first_factors,
    join_images,
    scale_one_factor,
    scale_first_factor,
    scale_product,
    merge_dense_weights,
    merge_pointwise_kernels,
    mean_of_rows_before_dense,
    transpose_into_product,
)
