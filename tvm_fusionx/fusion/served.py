"""Blocks that no template of the fast kind serves come apart again.

Growth goes by mapping types and costs, which take for granted that a kernel runs at the speed of
its kind. Where products are followed by movements, templates may know no kernel for the whole: the
template that serves everything computes it number by number, at a hundredth of the speed of the
parts. So such blocks are shown to the templates when all has grown, and grown once more within
themselves, each step only if a template serves what it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.fusion.candidate import SMALL_FLOPS
from tvm_fusionx.fusion.classify import mapping_type
from tvm_fusionx.fusion.geometry import is_contraction, is_movement
from tvm_fusionx.fusion.growth import Growth, Rules
from tvm_fusionx.fusion.partition import Partition, Unit
from tvm_fusionx.fusion.reasons import Reason, Refusal
from tvm_fusionx.operators import MappingType

WhyUnserved = Callable[[Graph, tuple[Node, ...]], "str | None"]
"""Says why only the template for everything serves a block of these calls; None if others do."""


@dataclass(frozen=True)
class Torn:
    """What came of a block that was taken apart."""

    unit: Unit
    """The block as it had grown."""

    reason: str


def tear_unserved(growth: Growth, why_unserved: WhyUnserved) -> dict[Node, Torn]:
    """Take units apart that no fast template serves.

    Parameters
    ----------
    growth
        Fully grown; its partition is changed.
    why_unserved
        Asked of units that might be such, and of what they are made of again.

    Returns
    -------
    torn
        For each call of a unit that was taken apart, that unit.
    """
    torn: dict[Node, Torn] = {}
    for unit in growth.partition.units:
        if not _might_be_unserved(unit, growth.graph):
            continue
        reason = why_unserved(growth.graph, unit.nodes)
        if reason is not None:
            torn.update(dict.fromkeys(unit.nodes, Torn(unit, reason)))
    if not torn:
        return torn
    usual = {each.name: getattr(growth.rules, each.name) for each in fields(Rules)}
    rules = _Within(**usual, torn=torn, why_unserved=why_unserved)
    again = Growth(growth.graph, rules, growth.order)
    # First what stays in registers behind a product, before it grows onto what comes after.
    for node in again.partition.calls:
        if node in torn and is_contraction(node):
            again.grow_forward(node)
    again.grow()
    parts: dict[int, list[tuple[Node, ...]]] = {}
    units: dict[int, Unit] = {}
    for made in again.partition.units:
        if made.nodes[0] in torn:
            unit = torn[made.nodes[0]].unit
            units[id(unit)] = unit
            parts.setdefault(id(unit), []).append(made.nodes)
    for key, unit in units.items():
        if len(parts[key]) > 1:
            growth.partition.split(unit, parts[key])
    return torn


def _might_be_unserved(unit: Unit, graph: Graph) -> bool:
    """Tell whether a unit is large and moves what a product or a reduction in it gives.

    Or whether it multiplies what it moved, and gives that to others, too.
    """
    if sum(map(flops, unit.nodes)) <= SMALL_FLOPS:
        return False
    inside = set(unit.nodes)
    below: set[Node] = set()
    for node in unit.nodes:
        sources = {value.node for value in node.operands} & inside
        is_below = any(
            source in below or mapping_type(source) is MappingType.MANY_TO_MANY
            for source in sources
        )
        if is_below and is_movement(node):
            return True
        if is_below:
            below.add(node)
        if is_contraction(node) and any(
            is_movement(source) and not inside.issuperset(graph.users(source)) for source in sources
        ):
            return True
    return False


@dataclass(frozen=True)
class _Within(Rules):
    """The rules of a growth, for calls of one torn unit at a time, and what templates serve."""

    torn: Mapping[Node, Torn] = field(default_factory=dict)
    why_unserved: WhyUnserved = field(default=lambda graph, nodes: None)

    def why_not(self, partition: Partition, producer: Unit, consumer: Unit) -> Refusal | None:
        """Say why two neighbouring units stay apart, or None if they can and should be one."""
        first = self.torn.get(producer.nodes[0])
        second = self.torn.get(consumer.nodes[0])
        if first is None or second is None or first.unit is not second.unit:
            return Refusal(Reason.NO_TEMPLATE)
        refusal = super().why_not(partition, producer, consumer)
        if refusal is not None:
            return refusal
        index = partition.index
        nodes = tuple(sorted(producer.nodes + consumer.nodes, key=index.__getitem__))
        if not any(mapping_type(node) is MappingType.MANY_TO_MANY for node in nodes):
            return None
        reason = self.why_unserved(partition.graph, nodes)
        return None if reason is None else Refusal(Reason.NO_TEMPLATE, reason)
