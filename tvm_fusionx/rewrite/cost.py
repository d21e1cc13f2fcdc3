"""The measure that rewriting lowers: arithmetic first, then bytes, then kernels, then calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.operators import (
    CONTRACTIONS,
    EXTERN_KERNELS,
    MOVEMENTS,
    REORGANIZE,
    TRANSCENDENTALS,
    WINDOW_REDUCTIONS,
    MappingType,
    mapping_type_of,
)

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
# split, whose several results keep it out of most blocks; one matrix product for many; a picture of
# one row for a sequence; pixels for volumes.
_IRREGULAR = frozenset(
    ["nn.batch_matmul", "nn.conv1d", "nn.conv3d_transpose", "nn.matmul", "split"]
)

# Calls that no block takes in beside another of them, whatever surrounds them: a block has one
# contraction, windows are written by templates of their own. All else is taken to join a neighbour.
_HEADS_OF_KERNELS = CONTRACTIONS | WINDOW_REDUCTIONS | EXTERN_KERNELS


class Cost(NamedTuple):
    """Compared in this order; each field is a sum over calls, so gains add up."""

    arithmetic: int
    """Operations, each weighed by what it costs relative to a multiply."""

    bytes: int
    """Size of all results that are computed; what only moves data is read in place by a kernel."""

    kernels: int
    """Kernels after planning, estimated from below: calls that no block holds two of."""

    computing_calls: int
    """Calls that do more than move data."""

    irregular_calls: int
    """Calls of operators that a more regular one can often stand for."""

    moving_calls: int
    """Calls that move data; a reshape does not."""

    moved_bytes: int
    """Size of the results of calls that move data."""

    calls: int
    """All calls."""


NOTHING = Cost(0, 0, 0, 0, 0, 0, 0, 0)


def relative_cost(op: str) -> int:
    """Return what one element of an operator costs, relative to a multiply."""
    return _RELATIVE_COST.get(op, 1)


def needs_kernel(node: Node) -> bool:
    """Tell whether a call heads a kernel of its own wherever it stands.

    Those are contractions, windows, calls of several results (only slices of them can be read in
    place) and whatever the mapping types call opaque.
    """
    return (
        node.op in _HEADS_OF_KERNELS
        or node.returns_tuple
        or mapping_type_of(node.op) is MappingType.OPAQUE
    )


def cost_of(nodes: Iterable[Node]) -> Cost:
    """Return the cost of a set of calls; what is known at compile time costs nothing."""
    total = NOTHING
    known: set[Node] = set()
    for node in sorted(nodes, key=lambda item: item.number):
        if all(value.is_constant or value.node in known for value in node.operands):
            known.add(node)
        if node.is_call and node not in known:
            total = Cost(*map(int.__add__, total, _cost_of_call(node)))
    return total


def _cost_of_call(node: Node) -> Cost:
    is_moving, is_reshape = node.op in MOVEMENTS, node.op in REORGANIZE
    weight = 1 if node.op in CONTRACTIONS else relative_cost(node.op)
    return Cost(
        arithmetic=flops(node) * weight,
        bytes=0 if is_moving else node.bytes_out,
        kernels=int(needs_kernel(node)),
        computing_calls=int(not is_moving),
        irregular_calls=int(node.op in _IRREGULAR),
        moving_calls=int(is_moving and not is_reshape),
        moved_bytes=node.bytes_out if is_moving and not is_reshape else 0,
        calls=1,
    )


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
