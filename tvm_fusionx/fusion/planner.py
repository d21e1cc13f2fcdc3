"""Grow fusion blocks from seeds: DNNFusion's Listing 1, made precise."""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.ecg.to_relay import block_outputs
from tvm_fusionx.fusion.candidate import Candidate
from tvm_fusionx.fusion.classify import mapping_type
from tvm_fusionx.fusion.describe import describe_block, label, name_blocks
from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS, DeviceCosts
from tvm_fusionx.fusion.legality import Limits, why_not_fusible
from tvm_fusionx.fusion.partition import Partition, Unit
from tvm_fusionx.fusion.plan import EdgeDecision, Plan
from tvm_fusionx.fusion.profit import why_not_profitable
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.fusion.yellow_cells import MeasureBlock, YellowCells
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


@dataclass(frozen=True)
class PlannerOptions:
    """What a user may set."""

    limits: Limits = field(default_factory=Limits)
    """Upper bounds on one kernel."""

    fuse: bool = True
    """Whether to fuse at all; without, every operator is its own block (the control)."""

    costs: DeviceCosts = DEFAULT_COSTS
    """Rates of the device, for what the mapping-type table leaves open."""

    measure: MeasureBlock | None = None
    """Asked where the costs of fusing and not fusing are a tie; None never measures."""


def plan(graph: Graph, options: PlannerOptions | None = None) -> Plan:
    """Group every call of `graph` into blocks.

    Deterministic: the same graph and options give the same plan.

    Parameters
    ----------
    graph
        Any graph; not changed.
    options
        Limits and switches; defaults when None.
    """
    grower = _Grower(graph, options or PlannerOptions())
    if grower.options.fuse:
        grower.grow()
        grower.free_reshapes()
    return grower.plan()


class _Grower:
    def __init__(self, graph: Graph, options: PlannerOptions) -> None:
        self.graph = graph
        self.options = options
        self.partition = Partition(graph)
        self.yellow_cells = YellowCells(graph, options.costs, options.measure)
        self._refused: dict[tuple[Unit, Unit], Refusal | None] = {}

    def grow(self) -> None:
        """Grow from every seed, then let whole blocks join until nothing changes."""
        index = self.partition.index
        for phase in SEED_PHASES:
            seeds = [node for node in self.partition.calls if mapping_type(node) is phase]
            # Smallest intermediate result first; ties in graph order, for determinism.
            for seed in sorted(seeds, key=lambda node: (node.bytes_out, index[node])):
                self._grow_forward(seed)
                self._grow_backward(seed)
        while any([self._grow_backward(node) for node in reversed(self.partition.calls)]):
            pass

    def _grow_forward(self, seed: Node) -> bool:
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
        self.partition.merge(first, second)
        return True

    def why_not(self, producer: Unit, consumer: Unit) -> Refusal | None:
        """Say why two neighbouring units stay apart, or None if they can and should be one."""
        key = (producer, consumer)
        # Only convexity depends on other units, and merging others never makes a pair convex.
        if self._refused.get(key) is None:
            candidate = Candidate(self.partition, producer, consumer)
            refusal = why_not_fusible(self.partition, candidate, self.options.limits)
            refusal = refusal or why_not_profitable(candidate, self.options.limits.pairs)
            self._refused[key] = refusal or self.yellow_cells.why_not(candidate)
        return self._refused[key]

    def free_reshapes(self) -> None:
        """Take reshapes off the borders of blocks: as functions of their own they cost nothing."""
        for unit in self.partition.units:
            parts = _without_border_reshapes(self.graph, unit.nodes)
            if len(parts) > 1:
                self.partition.split(unit, parts)

    def plan(self) -> Plan:
        units = self.partition.units
        names = name_blocks([unit.nodes for unit in units])
        blocks = tuple(
            describe_block(self.graph, unit.nodes, name)
            for unit, name in zip(units, names, strict=True)
        )
        name_of = {node: block.name for block in blocks for node in block.nodes}
        edges = []
        for consumer in self.partition.calls:
            for value in dict.fromkeys(consumer.operands):
                if value.node in name_of:
                    edges.append(self._decision(value.node, consumer, name_of, value.type.bytes))
        return Plan(blocks, tuple(edges))

    def _decision(
        self, producer: Node, consumer: Node, name_of: dict[Node, str], size: int
    ) -> EdgeDecision:
        first, second = self.partition.unit_of[producer], self.partition.unit_of[consumer]
        refusal = None
        if first is not second:
            refusal = self._why_apart(first, second)
        return EdgeDecision(
            producer=label(producer),
            consumer=label(consumer),
            producer_block=name_of[producer],
            consumer_block=name_of[consumer],
            fused=refusal is None,
            reason=refusal.reason if refusal else None,
            detail=refusal.detail if refusal else "",
            bytes=size,
        )

    def _why_apart(self, first: Unit, second: Unit) -> Refusal:
        if not self.options.fuse:
            return Refusal(Reason.DENIED, "fusion is switched off")
        if is_reshape_only(first.nodes) or is_reshape_only(second.nodes):
            return Refusal(Reason.RESHAPE_IS_FREE)
        refusal = self.why_not(first, second)
        if refusal is not None:
            return refusal
        return Refusal(Reason.RESHAPE_IS_FREE, "they met after a reshape between them was freed")


def is_reshape_only(nodes: tuple[Node, ...]) -> bool:
    """Tell whether no data moves in a block."""
    return all(node.op in REORGANIZE for node in nodes)


def _without_border_reshapes(graph: Graph, nodes: tuple[Node, ...]) -> list[tuple[Node, ...]]:
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
        outputs = block_outputs(graph, rest)
        if outputs == (node[0],):
            trailing.insert(0, node)
            rest.remove(node)
    # Reshapes of different values are not one block: a primitive function of them has one body.
    return [*((node,) for node in leading), tuple(rest), *((node,) for node in trailing)]
