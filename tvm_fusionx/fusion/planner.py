"""Plan a graph: which calls become one kernel, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.fusion.describe import describe_block, labels, name_blocks
from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS, DeviceCosts
from tvm_fusionx.fusion.growth import Growth, Rules, is_reshape_only
from tvm_fusionx.fusion.legality import Limits
from tvm_fusionx.fusion.optimal import TIME_LIMIT_SECONDS, improve
from tvm_fusionx.fusion.partition import Unit
from tvm_fusionx.fusion.plan import EdgeDecision, Plan, Solution
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.fusion.served import Torn, WhyUnserved, tear_unserved
from tvm_fusionx.fusion.steering import nodes_alone
from tvm_fusionx.fusion.yellow_cells import MeasureBlock, YellowCells

GREEDY = "greedy"
OPTIMAL = "optimal"
PLANNERS = (GREEDY, OPTIMAL)


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

    planner: str = GREEDY
    """``greedy``, or ``optimal``: the fastest cover by legal blocks that a solver finds."""

    time_limit_seconds: float = TIME_LIMIT_SECONDS
    """How long the solver of the optimal planner may take; what it has by then counts."""

    allow: frozenset[str] = frozenset()
    """Operators, nodes and blocks, by name: where there are any, nothing else is fused."""

    deny: frozenset[str] = frozenset()
    """Operators, nodes and blocks, by name, whose calls stay in blocks of their own."""

    why_unserved: WhyUnserved | None = None
    """Says why no fast template serves a block, which then comes apart; None never asks."""

    def __post_init__(self) -> None:
        if self.planner not in PLANNERS:
            raise ValueError(
                f"planner: expected one of {', '.join(PLANNERS)}; found {self.planner!r}. "
                "Leave it out for the greedy planner."
            )


def plan(graph: Graph, options: PlannerOptions | None = None) -> Plan:
    """Group every call of `graph` into blocks.

    Deterministic: the same graph and options give the same plan, unless a device is asked or the
    solver's time limit ends its work.

    Parameters
    ----------
    graph
        Any graph; not changed.
    options
        Limits and switches; defaults when None.

    Raises
    ------
    MissingDependencyError
        The optimal planner is asked for and its solver is not installed.
    """
    options = options or PlannerOptions()

    def unsteered() -> dict[str, tuple[Node, ...]]:
        free = replace(options, allow=frozenset(), deny=frozenset())
        return {block.name: block.nodes for block in plan(graph, free).blocks}

    alone = nodes_alone(graph.calls(), options.allow, options.deny, unsteered)
    yellow_cells = YellowCells(graph, options.costs, options.measure)
    growth = Growth(graph, Rules(options.limits, yellow_cells, alone))
    solution = None
    torn: dict[Node, Torn] = {}
    if options.fuse:
        growth.grow()
        if options.planner == OPTIMAL:
            solution = improve(growth, options.costs, options.time_limit_seconds)
        if options.why_unserved is not None:
            torn = tear_unserved(growth, options.why_unserved)
        growth.free_reshapes()
    return _described(growth, options, solution, torn)


def _described(
    growth: Growth, options: PlannerOptions, solution: Solution | None, torn: Mapping[Node, Torn]
) -> Plan:
    units = growth.partition.units
    names = name_blocks([unit.nodes for unit in units])
    blocks = tuple(
        describe_block(growth.graph, unit.nodes, name)
        for unit, name in zip(units, names, strict=True)
    )
    name_of = {node: block.name for block in blocks for node in block.nodes}
    unit_of = growth.partition.unit_of
    label_of = labels(growth.partition.calls)
    edges = []
    for consumer in growth.partition.calls:
        for value in dict.fromkeys(consumer.operands):
            if value.node not in name_of:
                continue
            first, second = unit_of[value.node], unit_of[consumer]
            refusal = None
            if first is not second:
                refusal = _why_torn(torn, value.node, consumer)
                refusal = refusal or _why_apart(growth, options, first, second)
            edges.append(
                EdgeDecision(
                    producer=label_of[value.node],
                    consumer=label_of[consumer],
                    producer_block=name_of[value.node],
                    consumer_block=name_of[consumer],
                    fused=refusal is None,
                    reason=refusal.reason if refusal else None,
                    detail=refusal.detail if refusal else "",
                    bytes=value.type.bytes,
                )
            )
    steps = tuple(tuple(label_of[node] for node in nodes) for nodes in growth.formed)
    return Plan(blocks, tuple(edges), solution, label_of, growth.graph.outputs, steps)


def _why_torn(torn: Mapping[Node, Torn], producer: Node, consumer: Node) -> Refusal | None:
    first, second = torn.get(producer), torn.get(consumer)
    if first is None or second is None or first.unit is not second.unit:
        return None
    return Refusal(Reason.NO_TEMPLATE, first.reason)


def _why_apart(growth: Growth, options: PlannerOptions, first: Unit, second: Unit) -> Refusal:
    if not options.fuse:
        return Refusal(Reason.DENIED, "fusion is switched off")
    if is_reshape_only(first.nodes) or is_reshape_only(second.nodes):
        return Refusal(Reason.RESHAPE_IS_FREE)
    refusal = growth.why_not(first, second)
    if refusal is not None:
        return refusal
    if options.planner == OPTIMAL:
        return Refusal(Reason.SLOWER, "the whole plan is faster with these two apart")
    return Refusal(Reason.RESHAPE_IS_FREE, "they met after a reshape between them was freed")
