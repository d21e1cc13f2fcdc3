"""The measure that rewriting lowers: arithmetic first, then calls, then bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.operators import CONTRACTIONS, MOVEMENTS, REORGANIZE, TRANSCENDENTALS

# Cost of one element relative to a multiply, from the instruction tables of current x86 and ARM
# cores: division and square root have a quarter of the throughput; a transcendental is a polynomial
# of about ten terms; a power is a logarithm, a product and an exponential.
_DIVISION = 4
_POLYNOMIAL = 10
_RELATIVE_COST = {
    **dict.fromkeys(TRANSCENDENTALS, _POLYNOMIAL),
    **dict.fromkeys(("divide", "sqrt", "rsqrt", "mod", "floor_divide", "floor_mod"), _DIVISION),
    "power": 2 * _POLYNOMIAL + 1,
}


# Operators that another, which more templates and rules know, can often stand for: slices for a
# split, whose several results keep it out of every block; one matrix product for many.
_IRREGULAR = frozenset(["nn.batch_matmul", "nn.matmul", "split"])


class Cost(NamedTuple):
    """Compared in this order."""

    arithmetic: int
    """Operations, each weighed by what it costs relative to a multiply."""

    computing_calls: int
    """Calls that do more than move data."""

    irregular_calls: int
    """Calls of operators that a more regular one can often stand for."""

    moving_calls: int
    """Calls that move data; a reshape does not."""

    bytes: int
    """Size of all results but those of reshapes."""

    calls: int
    """All calls."""


NOTHING = Cost(0, 0, 0, 0, 0, 0)


def relative_cost(op: str) -> int:
    """Return what one element of an operator costs, relative to a multiply."""
    return _RELATIVE_COST.get(op, 1)


def cost_of(nodes: Iterable[Node]) -> Cost:
    """Return the cost of a set of calls; what is known at compile time costs nothing."""
    arithmetic = computing = irregular = moving = size = calls = 0
    known: set[Node] = set()
    for node in sorted(nodes, key=lambda item: item.number):
        if all(value.is_constant or value.node in known for value in node.operands):
            known.add(node)
        if not node.is_call or node in known:
            continue
        arithmetic += flops(node) * (1 if node.op in CONTRACTIONS else relative_cost(node.op))
        computing += node.op not in MOVEMENTS
        irregular += node.op in _IRREGULAR
        if node.op not in REORGANIZE:
            moving += node.op in MOVEMENTS
            size += node.bytes_out
        calls += 1
    return Cost(arithmetic, computing, irregular, moving, size, calls)


def freed_by(graph: Graph, old: Iterable[Value], kept: set[Node]) -> set[Node]:
    """Return the calls that nothing would read if the values `old` were not read.

    Parameters
    ----------
    graph
        The graph before the change.
    old
        Values that are going to be replaced.
    kept
        Calls that the replacement reads, and so keeps alive.
    """
    replaced = set(old)
    returned = {value for value in graph.outputs if value not in replaced}
    freed: set[Node] = set()
    pending = [value.node for value in replaced]
    while pending:
        node = pending.pop()
        if node in freed or node in kept or not node.is_call:
            continue
        if any(value in returned for value in node):
            continue
        still_read = {
            value for user in graph.users(node) if user not in freed for value in user.operands
        }
        if any(value in still_read and value not in replaced for value in node):
            continue
        freed.add(node)
        pending.extend(value.node for value in node.operands)
    return freed
