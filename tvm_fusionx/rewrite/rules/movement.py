"""Commutative laws of moving data: functions pass transposes, slices, gathers and broadcasts."""

from __future__ import annotations

from functools import partial
from typing import Any

from tvm_fusionx.ecg.construct import transpose, transpose_axes
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.ecg.numpy_operators import reduced_axes
from tvm_fusionx.operators import AXIS_REDUCTIONS
from tvm_fusionx.rewrite.conditions import same_shape, scalars
from tvm_fusionx.rewrite.moves_around import reshaped_once, transposed_once
from tvm_fusionx.rewrite.rule import (
    Domain,
    Law,
    NumericClass,
    Refused,
    Replacement,
    graph_rule,
    rule,
)
from tvm_fusionx.rewrite.rules.families import BINARY, EVEN, HOMOGENEOUS, ODD, UNARY
from tvm_fusionx.rewrite.term import Term, call, one_of, op

commutative = partial(rule, law=Law.COMMUTATIVE)
exact = partial(commutative, numeric_class=NumericClass.EXACT)
floating = partial(exact, domain=Domain.FLOAT)

A: dict[str, Any] = {"a": (4, 8)}
AB: dict[str, Any] = {"a": (4, 8), "b": (4, 8)}
_unary = one_of("f", UNARY)
_binary = one_of("g", BINARY)
_even = one_of("f", EVEN)
_even_but_absolute = one_of("f", ["cos", "cosh"])
_odd = one_of("f", ODD)
_homogeneous = one_of("f", HOMOGENEOUS)
PART: dict[str, Any] = {"strided_slice": {"begin": [1], "end": [3], "strides": [1], "axes": [0]}}


@floating(
    lhs=lambda a: _unary(op.broadcast_to(a)),
    attributes={"broadcast_to": {"shape": [4, 8]}},
    a=(1, 8),
)
def function_before_broadcast(a: Term) -> Term:
    """f(broadcast(a)) -> broadcast(f(a))."""
    return op.broadcast_to(_unary(a))


@floating(lhs=lambda a: _unary(op.tile(a)), attributes={"tile": {"reps": [2, 1]}}, **A)
def function_before_tile(a: Term) -> Term:
    """f(tile(a)) -> tile(f(a))."""
    return op.tile(_unary(a))


@floating(lhs=lambda a: _unary(op.repeat(a)), attributes={"repeat": {"repeats": 2, "axis": 0}}, **A)
def function_before_repeat(a: Term) -> Term:
    """f(repeat(a)) -> repeat(f(a))."""
    return op.repeat(_unary(a))


@floating(lhs=lambda a: op.strided_slice(_unary(a)), attributes=PART, **A)
def slice_before_function(a: Term) -> Term:
    """slice(f(a)) -> f(slice(a)): what is cut off is not computed."""
    return _unary(op.strided_slice(a))


@floating(
    lhs=lambda a, b: op.strided_slice(_binary(a, b)),
    when=same_shape("a", "b"),
    attributes=PART,
    **AB,
)
def slice_before_binary(a: Term, b: Term) -> Term:
    """slice(a + b) -> slice(a) + slice(b); and for -, *, /, max, min."""
    return _binary(op.strided_slice(a), op.strided_slice(b))


@floating(
    lhs=lambda a, s: op.strided_slice(_binary(a, s)), when=scalars("s"), attributes=PART, **A, s=2.0
)
def slice_before_number(a: Term, s: Term) -> Term:
    """slice(a + s) -> slice(a) + s for a number s; and for -, *, /, max, min."""
    return _binary(op.strided_slice(a), s)


@floating(
    lhs=lambda a: _unary(op.nn.pad(a, 0.0)),
    attributes={"nn.pad": {"pad_width": [[1, 0], [0, 2]]}},
    **A,
)
def function_before_padding(a: Term) -> Term:
    """f(pad(a, 0)) -> pad(f(a), f(0))."""
    return op.nn.pad(_unary(a), _unary(0.0))


@exact(
    lhs=lambda a, b: _binary(op.transpose(a), op.transpose(b)),
    domain=Domain.FLOAT,
    when=same_shape("a", "b"),
    attributes={"transpose": {"axes": [1, 0]}},
    a=(4, 4),
    b=(4, 4),
)
def binary_before_transpose(a: Term, b: Term) -> Term:
    """transpose(a) + transpose(b) -> transpose(a + b); and for -, *, /, max, min (TASO)."""
    return op.transpose(_binary(a, b))


@exact(
    lhs=lambda a, b: _binary(op.reshape(a), op.reshape(b)),
    domain=Domain.FLOAT,
    when=same_shape("a", "b"),
    attributes={"reshape": {"newshape": [32]}},
    **AB,
)
def binary_before_reshape(a: Term, b: Term) -> Term:
    """reshape(a) + reshape(b) -> reshape(a + b); and for -, *, /, max, min."""
    return op.reshape(_binary(a, b))


@floating(lhs=lambda a: _even(-a), **A)
def even_function_of_negative(a: Term) -> Term:
    """f(-a) -> f(a) for an even function: |.|, cos, cosh."""
    return _even(a)


@floating(lhs=lambda a: _even_but_absolute(op.abs(a)), **A)
def even_function_of_absolute(a: Term) -> Term:
    """f(|a|) -> f(a) for an even function: cos, cosh."""
    return _even_but_absolute(a)


@floating(lhs=lambda a: -_odd(-a), **A)
def odd_function_of_negative(a: Term) -> Term:
    """-f(-a) -> f(a) for an odd function: tanh, erf, sin, ..."""
    return _odd(a)


@floating(lhs=lambda a, k: _odd(-a) * k, when=scalars("k"), **A, k=2.0)
def sign_through_odd_function(a: Term, k: Term) -> Term:
    """f(-a)*k -> f(a)*(-k) for an odd function and a number k."""
    return _odd(a) * (-k)


def _why_not_above_zero_number(k: Value, m: Value) -> str | None:
    if not (k.is_constant and m.is_constant) or k.shape or m.shape:
        return "a factor is not one constant number"
    return None if float(k.array) > 0 else "the inner factor is not above zero"


@commutative(
    lhs=lambda a, k, m: _homogeneous(a * k) * m,
    when=_why_not_above_zero_number,
    **A,
    k=2.0,
    m=3.0,
)
def merge_factors_through_function(a: Term, k: Term, m: Term) -> Term:
    """f(a*k)*m -> f(a)*(k*m) for k above zero and f relu, leaky_relu or |.|."""
    return _homogeneous(a) * (k * m)


@graph_rule(
    roots=("add", "multiply", "maximum", "minimum"),
    law=Law.COMMUTATIVE,
    example=lambda a, b: (op.exp(a * b), op.tanh(b * a)),
    **AB,
)
def share_swapped_twin(graph: Graph, node: Node) -> list[Replacement] | None:
    """a*b and b*a -> one of them: operands have one order (DNNFusion, C1)."""
    first, second = node.operands
    for twin in graph.users(first.node):
        if twin is not node and twin.op == node.op and twin.operands == (second, first):
            return [(node[0], twin[0])] if twin.number < node.number else None
    return None


@graph_rule(
    roots=("transpose",),
    law=Law.COMMUTATIVE,
    example=lambda a: op.transpose(op.tanh(op.transpose(a))),
    attributes={"transpose": {"axes": [1, 0]}},
    **A,
)
def merge_transposes_around_function(graph: Graph, node: Node) -> list[Replacement] | None:
    """transpose(f(transpose(a, p)), q) -> f(transpose(a, p o q)); none if nothing changes place."""
    made = transposed_once(graph, node)
    return None if made is None else [(node[0], made)]


@graph_rule(
    roots=("reshape",),
    law=Law.COMMUTATIVE,
    example=lambda a: op.reshape(op.tanh(call("reshape", a, attrs={"newshape": [32]}))),
    attributes={"reshape": {"newshape": [8, 4]}},
    **A,
)
def merge_reshapes_around_function(graph: Graph, node: Node) -> list[Replacement] | None:
    """reshape(f(reshape(a))) -> f(reshape(a))."""
    made = reshaped_once(graph, node)
    return None if made is None else [(node[0], made)]


@graph_rule(
    roots=("transpose",),
    law=Law.COMMUTATIVE,
    example=lambda a: op.transpose(op.nn.softmax(op.transpose(a), attrs={"axis": 0})),
    attributes={"transpose": {"axes": [1, 0]}},
    **A,
)
def softmax_without_transposes(graph: Graph, node: Node) -> list[Replacement] | None:
    """transpose(softmax(transpose(a))) -> softmax(a) along the axis's own place."""
    middle = node.operands[0].node
    if middle.op not in ("nn.softmax", "nn.log_softmax") or middle.operands[0].op != "transpose":
        return None
    if not graph.has_single_user(node.operands[0]):
        return None
    inner = middle.operands[0].node
    first, second = transpose_axes(inner), transpose_axes(node)
    if [first[axis] for axis in second] != list(range(len(first))):
        return None
    axis = first[int(middle.attrs["axis"]) % len(first)]
    out = graph.call(
        middle.op, [inner.operands[0]], middle.attrs.replace(axis=axis), name=middle.name
    )
    return [(node[0], out)]


@graph_rule(
    roots=tuple(sorted(AXIS_REDUCTIONS - {"argmax", "argmin", "variance"})),
    law=Law.COMMUTATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda a: op.sum(op.transpose(a), attrs={"keepdims": False}),
    attributes={"transpose": {"axes": [1, 0]}},
    **A,
)
def reduce_before_transpose(graph: Graph, node: Node) -> list[Replacement] | None:
    """sum(transpose(a), i) -> sum(a, j), transposed if two axes or more are left out of order."""
    inner = node.operands[0].node
    if inner.op != "transpose":
        return None
    axes = transpose_axes(inner)
    reduced = reduced_axes(node)
    kept = [axes[place] for place in range(len(axes)) if place not in reduced]
    attrs = node.attrs.replace(axis=tuple(sorted(axes[place] for place in reduced)), exclude=False)
    if node.attrs.get("keepdims"):
        out = graph.call(node.op, [inner.operands[0]], attrs, name=node.name)
        return [(node[0], transpose(graph, out, axes, node.name))]
    out = graph.call(node.op, [inner.operands[0]], attrs, name=node.name)
    order = [sorted(kept).index(axis) for axis in kept]
    return [(node[0], transpose(graph, out, order, node.name))]


@graph_rule(
    roots=("transpose",),
    law=Law.COMMUTATIVE,
    numeric_class=NumericClass.REASSOCIATES,
    example=lambda a, b: op.transpose(op.nn.batch_matmul(a, b)),
    attributes={"transpose": {"axes": [0, 2, 1]}},
    a=(2, 4, 8),
    b=(2, 6, 8),
)
def transpose_of_product(graph: Graph, node: Node) -> list[Replacement] | None:
    """transpose(a.b) -> (b transposed).(a transposed): the factors change place (TASO)."""
    product = node.operands[0].node
    if product.op != "nn.batch_matmul" or transpose_axes(node) != (0, 2, 1):
        return None
    if not graph.has_single_user(node.operands[0]):
        return None
    first, second = product.operands
    attrs = product.attrs.replace(
        transpose_a=not product.attrs["transpose_b"], transpose_b=not product.attrs["transpose_a"]
    )
    return [(node[0], graph.call(product.op, [second, first], attrs, name=product.name))]


@graph_rule(
    roots=("strided_slice",),
    law=Law.COMMUTATIVE,
    example=lambda a: op.strided_slice(op.transpose(a)),
    attributes={**PART, "transpose": {"axes": [1, 0]}},
    **A,
)
def slice_before_transpose(graph: Graph, node: Node) -> list[Replacement] | Refused | None:
    """slice(transpose(a)) -> transpose(slice(a)): fewer elements change place."""
    inner = node.operands[0].node
    if inner.op != "transpose" or not graph.has_single_user(node.operands[0]):
        return None
    axes = transpose_axes(inner)
    sliced = node.attrs.get("axes") or tuple(range(len(node.attrs["begin"])))
    attrs = node.attrs.replace(axes=tuple(axes[int(axis)] for axis in sliced))
    part = graph.call("strided_slice", [inner.operands[0]], attrs, name=node.name)
    return [(node[0], transpose(graph, part, axes, node.name))]


@graph_rule(
    roots=("take",),
    law=Law.COMMUTATIVE,
    example=lambda a, i: op.take(op.tanh(a), op.cast(i, attrs={"dtype": "int32"})),
    attributes={"take": {"axis": 0}},
    a=(8, 4),
    i=(3,),
)
def take_before_function(graph: Graph, node: Node) -> list[Replacement] | None:
    """take(f(a), i) -> f(take(a, i)) where fewer elements are taken than there are."""
    source, indices = node.operands
    middle = source.node
    if middle.op not in UNARY or not graph.has_single_user(source):
        return None
    taken = graph.call("take", [middle.operands[0], indices], node.attrs, name=node.name)
    return [(node[0], graph.call(middle.op, [taken], middle.attrs, name=middle.name))]


@graph_rule(
    roots=tuple(UNARY),
    law=Law.COMMUTATIVE,
    example=lambda a, i: op.tanh(op.take(a, op.cast(i, attrs={"dtype": "int32"}))),
    attributes={"take": {"axis": 0}},
    a=(2, 4),
    i=(6,),
)
def function_before_take(graph: Graph, node: Node) -> list[Replacement] | None:
    """f(take(a, i)) -> take(f(a), i) where more elements are taken than there are."""
    inner = node.operands[0].node
    if inner.op != "take" or not graph.has_single_user(node.operands[0]):
        return None
    table, indices = inner.operands
    changed = graph.call(node.op, [table], node.attrs, name=node.name)
    return [(node[0], graph.call("take", [changed, indices], inner.attrs, name=inner.name))]


RULES = (
    share_swapped_twin,
    merge_transposes_around_function,
    merge_reshapes_around_function,
    softmax_without_transposes,
    reduce_before_transpose,
    transpose_of_product,
    slice_before_transpose,
    slice_before_function,
    slice_before_binary,
    slice_before_number,
    take_before_function,
    function_before_take,
    function_before_broadcast,
    function_before_tile,
    function_before_repeat,
    function_before_padding,
    binary_before_transpose,
    binary_before_reshape,
    even_function_of_negative,
    even_function_of_absolute,
    odd_function_of_negative,
    sign_through_odd_function,
    merge_factors_through_function,
)
