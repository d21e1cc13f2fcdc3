"""A partition of the graph's calls into units whose contracted graph stays acyclic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.fusion.border import Border, border_of, joined


class Unit:
    """A set of calls that is, or may become, one block.

    Parameters
    ----------
    nodes
        Its calls, in topological order of the graph.
    position
        Place of the unit in a topological order of all units.
    """

    __slots__ = ("border", "nodes", "position", "predecessors", "successors")

    def __init__(self, nodes: tuple[Node, ...], position: int) -> None:
        self.nodes = nodes
        self.border: Border | None = None
        self.position = position
        self.predecessors: dict[Unit, None] = {}
        self.successors: dict[Unit, None] = {}


class Partition:
    """Units over the calls of a graph, each call its own at first.

    A topological order of the units is kept through every merge, so that the search for a path
    that leaves and re-enters a candidate never looks beyond the candidate's own span.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.calls = graph.calls()
        self._returned = frozenset(graph.outputs)
        self.index = {node: position for position, node in enumerate(self.calls)}
        units = [Unit((node,), position) for position, node in enumerate(self.calls)]
        self.unit_of = {unit.nodes[0]: unit for unit in units}
        # Place in the topological order -> unit; a merge leaves a hole, so that nothing moves.
        self._order: list[Unit | None] = list(units)
        for unit in units:
            for value in unit.nodes[0].operands:
                producer = self.unit_of.get(value.node)
                if producer is not None:
                    unit.predecessors[producer] = None
                    producer.successors[unit] = None

    @property
    def units(self) -> list[Unit]:
        """The units, each after all that it reads from."""
        return [unit for unit in self._order if unit is not None]

    def users(self, node: Node) -> list[Node]:
        """Return the live calls that read `node`."""
        return [user for user in self.graph.users(node) if user in self.index]

    def producers(self, node: Node) -> list[Node]:
        """Return the calls that `node` reads, without repetition."""
        return list(
            dict.fromkeys(value.node for value in node.operands if value.node in self.index)
        )

    def border(self, unit: Unit) -> Border:
        """Return the tensors that a unit reads and those of its results that are read outside."""
        if unit.border is None:
            unit.border = border_of(self.graph, unit.nodes, self._returned)
        return unit.border

    def joint_border(self, producer: Unit, consumer: Unit) -> Border:
        """Return the border that two units would have as one, without looking inside of them."""

        def is_outside(node: Node) -> bool:
            return self.unit_of.get(node) not in (producer, consumer)

        first, second = self.border(producer), self.border(consumer)
        return joined(self.graph, first, second, self._returned, is_outside)

    def is_convex(self, producer: Unit, consumer: Unit) -> bool:
        """Tell whether every path from `producer` to `consumer` is a direct edge."""
        return self._reached_without(producer, consumer) is not None

    def merge(self, producer: Unit, consumer: Unit) -> Unit:
        """Make one unit of two; they must be convex together."""
        reached = self._reached_without(producer, consumer)
        assert reached is not None, "merging would make a cycle"
        nodes = sorted(producer.nodes + consumer.nodes, key=self.index.__getitem__)
        merged = Unit(tuple(nodes), producer.position)
        merged.border = self.joint_border(producer, consumer)
        self._reconnect(merged, (producer, consumer))
        self._reorder(merged, producer, consumer, reached)
        for node in nodes:
            self.unit_of[node] = merged
        return merged

    def split(self, unit: Unit, parts: Sequence[tuple[Node, ...]]) -> list[Unit]:
        """Make several units of one; `parts` must be in topological order of their contraction."""
        made = [Unit(part, 0) for part in parts]
        for part in made:
            for node in part.nodes:
                self.unit_of[node] = part
        for neighbour in unit.predecessors:
            neighbour.successors.pop(unit)
        for neighbour in unit.successors:
            neighbour.predecessors.pop(unit)
        for part in made:
            for node in part.nodes:
                self._connect(part, node)
        self._order[unit.position : unit.position + 1] = made
        self._order = list(self.units)
        for position, placed in enumerate(self.units):
            placed.position = position
        return made

    def _connect(self, unit: Unit, node: Node) -> None:
        for producer in self.producers(node):
            other = self.unit_of[producer]
            if other is not unit:
                unit.predecessors[other] = None
                other.successors[unit] = None
        for user in self.users(node):
            other = self.unit_of[user]
            if other is not unit:
                unit.successors[other] = None
                other.predecessors[unit] = None

    def _reached_without(self, producer: Unit, consumer: Unit) -> set[Unit] | None:
        """Return the units between the two that `producer` reaches, or None if they reach on."""
        last = consumer.position
        reached: set[Unit] = set()
        stack = [unit for unit in producer.successors if unit is not consumer]
        while stack:
            unit = stack.pop()
            if unit.position >= last or unit in reached:
                continue
            reached.add(unit)
            for successor in unit.successors:
                if successor is consumer:
                    return None
                stack.append(successor)
        return reached

    def _reconnect(self, merged: Unit, parts: Iterable[Unit]) -> None:
        for part in parts:
            for neighbour in part.predecessors:
                neighbour.successors.pop(part, None)
                merged.predecessors[neighbour] = None
            for neighbour in part.successors:
                neighbour.predecessors.pop(part, None)
                merged.successors[neighbour] = None
        for part in parts:
            merged.predecessors.pop(part, None)
            merged.successors.pop(part, None)
        for neighbour in merged.predecessors:
            neighbour.successors[merged] = None
        for neighbour in merged.successors:
            neighbour.predecessors[merged] = None

    def _reorder(self, merged: Unit, producer: Unit, consumer: Unit, reached: set[Unit]) -> None:
        start, stop = producer.position, consumer.position + 1
        window = [unit for unit in self._order[start:stop] if unit is not None]
        between = [unit for unit in window if unit not in (producer, consumer)]
        before = [unit for unit in between if unit not in reached]
        after = [unit for unit in between if unit in reached]
        placed: list[Unit | None] = [*before, merged, *after]
        placed.extend([None] * (stop - start - len(placed)))
        self._order[start:stop] = placed
        for position in range(start, stop):
            unit = self._order[position]
            if unit is not None:
                unit.position = position
