"""Grow fusion blocks from seeds: DNNFusion's Listing 1, made precise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.classify import mapping_type
from tvm_fusionx.fusion.legality import Limits, why_not_fusible
from tvm_fusionx.fusion.partition import Partition, Unit
from tvm_fusionx.fusion.profit import why_not_profitable
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.fusion.yellow_cells import YellowCells
from tvm_fusionx.operators import REORGANIZE, MappingType

# The paper seeds One-to-One operators only, which leaves chains without one (convolution, reshape,
# transpose) unfused; the other types follow as later phases.
SEED_PHASES = (
    MappingType.ONE_TO_ONE,
    MappingType.REORGANIZE,
    MappingType.SHUFFLE,
    MappingType.ONE_TO_MANY,
    MappingType.MANY_TO_MANY,
)

SeedOrder = Callable[[Node, int], tuple[int, ...]]
"""``(call, its place in the graph)`` to a key: the smallest key of a phase is the first seed."""


def smallest_first(node: Node, place: int) -> tuple[int, ...]:
    """Order seeds as the paper does: smallest intermediate result first."""
    return (node.bytes_out, place)


@dataclass(frozen=True)
class Rules:
    """What decides whether two neighbouring units become one.

    Parameters
    ----------
    limits
        Upper bounds on one kernel.
    yellow_cells
        Decides what the mapping-type table leaves open; None fuses it.
    alone
        Calls that stay in blocks of their own, and why.
    """

    limits: Limits
    yellow_cells: YellowCells | None = None
    alone: Mapping[Node, str] = field(default_factory=dict)

    def why_not(self, partition: Partition, producer: Unit, consumer: Unit) -> Refusal | None:
        """Say why two neighbouring units stay apart, or None if they can and should be one."""
        candidate = Candidate(partition, producer, consumer)
        refusal = self._why_denied(candidate)
        refusal = refusal or why_not_fusible(partition, candidate, self.limits)
        refusal = refusal or why_not_profitable(
            candidate, self.limits.pairs, by_channel=self.limits.results_before_pools
        )
        if refusal is None and self.yellow_cells is not None:
            refusal = self.yellow_cells.why_not(candidate)
        return refusal

    def _why_denied(self, candidate: Candidate) -> Refusal | None:
        for node in candidate.nodes if self.alone else ():
            if node in self.alone:
                return Refusal(Reason.DENIED, self.alone[node])
        return None


class Growth:
    """Blocks that grow over one graph.

    Parameters
    ----------
    graph
        Not changed.
    rules
        What may be fused.
    order
        Which seed of a phase comes first.
    """

    def __init__(self, graph: Graph, rules: Rules, order: SeedOrder = smallest_first) -> None:
        self.graph = graph
        self.rules = rules
        self.order = order
        self.partition = Partition(graph)
        self.formed: dict[tuple[Node, ...], None] = {}
        """Every block that there was on the way, in order of appearance."""
        self._refused: dict[tuple[Unit, Unit], Refusal | None] = {}

    def grow(self) -> None:
        """Grow from every seed, then let whole blocks join until nothing changes."""
        index = self.partition.index
        for phase in SEED_PHASES:
            seeds = [node for node in self.partition.calls if mapping_type(node) is phase]
            # Ties in graph order, for determinism.
            for seed in sorted(seeds, key=lambda node: self.order(node, index[node])):
                self.grow_forward(seed)
                self._grow_backward(seed)
        while any([self._grow_backward(node) for node in reversed(self.partition.calls)]):
            pass

    def grow_forward(self, seed: Node) -> bool:
        """Join what reads a call, and what reads that; tell whether anything was joined."""
        grown = False
        pending = [seed]
        while pending:
            node = pending.pop()
            for user in self.partition.users(node):
                if self._join(node, user):
                    grown = True
                    pending.append(user)
        return grown

    def _grow_backward(self, seed: Node) -> bool:
        grown = False
        pending = [seed]
        while pending:
            node = pending.pop()
            for producer in self.partition.producers(node):
                if self._join(producer, node):
                    grown = True
                    pending.append(producer)
        return grown

    def _join(self, producer: Node, consumer: Node) -> bool:
        first, second = self.partition.unit_of[producer], self.partition.unit_of[consumer]
        if first is second or self.why_not(first, second) is not None:
            return False
        self.formed[self.partition.merge(first, second).nodes] = None
        return True

    def why_not(self, producer: Unit, consumer: Unit) -> Refusal | None:
        """Say why two neighbouring units stay apart, or None if they can and should be one."""
        key = (producer, consumer)
        # Only convexity depends on other units, and merging others never makes a pair convex.
        if self._refused.get(key) is None:
            self._refused[key] = self.rules.why_not(self.partition, producer, consumer)
        return self._refused[key]

    def free_reshapes(self) -> None:
        """Take reshapes off the borders of blocks: as functions of their own they cost nothing."""
        for unit in self.partition.units:
            parts = without_border_reshapes(self.graph, unit.nodes)
            if len(parts) > 1:
                self.partition.split(unit, parts)


def is_reshape_only(nodes: tuple[Node, ...]) -> bool:
    """Tell whether no data moves in a block."""
    return all(node.op in REORGANIZE for node in nodes)


def without_border_reshapes(graph: Graph, nodes: tuple[Node, ...]) -> list[tuple[Node, ...]]:
    """Cut a block into leading reshapes, the rest, and trailing reshapes."""
    if len(nodes) == 1 or is_reshape_only(nodes):
        return [nodes]
    rest = list(nodes)
    leading: list[Node] = []
    for node in nodes:
        inside = set(rest)
        is_first = not any(value.node in inside for value in node.operands)
        if node.op in REORGANIZE and is_first and not node.operands[0].is_constant:
            leading.append(node)
            rest.remove(node)
    trailing: list[Node] = []
    for node in reversed(nodes):
        if node.op not in REORGANIZE or node not in rest:
            continue
        if not any(user in rest for user in graph.users(node)):
            trailing.insert(0, node)
            rest.remove(node)
    # Reshapes of different values are not one block: a primitive function of them has one body.
    return [*((node,) for node in leading), tuple(rest), *((node,) for node in trailing)]
