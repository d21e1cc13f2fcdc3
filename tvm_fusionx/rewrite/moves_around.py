"""Transposes and reshapes on both sides of elementwise work become one, or none.

What is between may be one function, or the steps of a quantization and of the dequantization behind
it: all that turns one tensor element by element, with numbers besides.
"""

from __future__ import annotations

from tvm_fusionx.ecg.construct import reshape, transpose, transpose_axes
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.rules.families import BINARY, EVEN, ODD, UNARY

TRANSPOSE, RESHAPE = "transpose", "reshape"

ELEMENTWISE = frozenset(
    [
        *UNARY,
        *BINARY,
        *ODD,
        *EVEN,
        *("cast", "power", "floor", "ceil", "clip", "fusionx.round_even"),
        # With one scale for all elements; several are no numbers, and lie along an axis.
        "qnn.dequantize",
    ]
)


def merge_moves(graph: Graph) -> int:
    """Make one of every two moves with elementwise work between, in place; return how many."""
    count = 0
    while changes := sum(_merge(graph, node) for node in graph.calls()):
        count += changes
    return count


def _merge(graph: Graph, node: Node) -> bool:
    turn = {TRANSPOSE: transposed_once, RESHAPE: reshaped_once}.get(node.op)
    # Another merge may have replaced it.
    is_needed = bool(graph.users(node)) or node[0] in graph.outputs
    if turn is None or not is_needed:
        return False
    made = turn(graph, node)
    if made is None:
        return False
    graph.replace(node[0], made)
    return True


def transposed_once(graph: Graph, node: Node) -> Value | None:
    """Return f(transpose(a)) for a transpose of f of a transpose of a; None for anything else.

    Nothing is transposed where the two undo each other.
    """
    moved = _moved_through(graph, node)
    if moved is None:
        return None
    chain, inner = moved
    first = transpose_axes(inner)
    axes = [first[axis] for axis in transpose_axes(node)]
    return _again(graph, chain, transpose(graph, inner.operands[0], axes, node.name))


def reshaped_once(graph: Graph, node: Node) -> Value | None:
    """Return f(reshape(a)) for a reshape of f of a reshape of a; None for anything else."""
    moved = _moved_through(graph, node)
    if moved is None:
        return None
    chain, inner = moved
    shape = node.outputs[0].shape
    return _again(graph, chain, reshape(graph, inner.operands[0], shape, node.name))


def _moved_through(graph: Graph, node: Node) -> tuple[list[Node], Node] | None:
    """Return the elementwise calls that a move reads, the last one first, and the move before them.

    Each has one reader, and all of its other operands are numbers.
    """
    chain: list[Node] = []
    value = node.operands[0]
    while value.op != node.op:
        if value.op not in ELEMENTWISE or not graph.has_single_user(value):
            return None
        varying = _varying(value.node)
        if varying is None or varying.shape != value.shape:
            return None
        chain.append(value.node)
        value = varying
    return (chain, value.node) if chain else None


def _varying(node: Node) -> Value | None:
    """Return the only operand that is no number; None where there are several, or none."""
    found = [value for value in node.operands if not (value.is_constant and not value.shape)]
    return found[0] if len(found) == 1 else None


def _again(graph: Graph, chain: list[Node], source: Value) -> Value:
    """Return what elementwise calls, the last one first, make of `source`."""
    for middle in reversed(chain):
        varying = _varying(middle)
        operands = [source if value is varying else value for value in middle.operands]
        source = graph.call(middle.op, operands, middle.attrs, name=middle.name)
    return source
