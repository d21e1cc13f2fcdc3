"""Cut out what surrounds a change, before and after it: small graphs with countable kernels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.rewrite.cost import needs_kernel

CountKernels = Callable[[Graph], int]
"""How many kernels a planner makes of a graph."""

# Calls looked at on either side of a change. An attention reads its queries through four calls that
# move data; what is further away is in another block however the change turns out.
_MOST_CALLS = 16
# Larger constants become inputs: the planner asks only whether a small operand is known.
_LARGEST_CONSTANT_BYTES = 4096


def remembering(count: CountKernels) -> CountKernels:
    """Return a function that counts graphs of one structure once: a model's layers are alike."""
    known: dict[Hashable, int] = {}

    def remembered(graph: Graph) -> int:
        structure = _structure(graph)
        if structure not in known:
            known[structure] = count(graph)
        return known[structure]

    return remembered


def _structure(graph: Graph) -> Hashable:
    """Return what planning sees of a graph: not its names, nor what its constants hold."""
    nodes = graph.topological()
    place = {node: number for number, node in enumerate(nodes)}

    def places(values: Iterable[Value]) -> tuple[tuple[int, int], ...]:
        return tuple((place[value.node], value.index) for value in values)

    calls = [(n.op, n.attrs, places(n.operands), n.grouping, n.outputs) for n in nodes]
    return (*calls, places(graph.outputs))


@dataclass(frozen=True)
class Change:
    """A replacement that is written into a graph, but that nobody reads yet.

    Parameters
    ----------
    graph
        With the new calls in it.
    new_for
        The value that takes the place of each.
    freed
        Calls that nothing would need any more.
    added
        Calls of the replacement.
    mark
        The graph's mark before anything was added.
    """

    graph: Graph
    new_for: Mapping[Value, Value]
    freed: Collection[Node]
    added: Collection[Node]
    mark: int

    def kernels_saved(self, count: CountKernels) -> int:
        """Return how many kernels fewer `count` makes of the surroundings afterwards."""
        around = self._readers() | self._sources()
        before = _Cut({*around, *self.freed}, {}, self._readers_before)
        after = _Cut({*around, *self.added}, self.new_for, self._readers_after)
        return count(before.graph()) - count(after.graph())

    def _readers(self) -> set[Node]:
        """Return the calls that read the result, through calls that may join their kernels."""
        found: set[Node] = set()
        pending = [old.node for old in self.new_for]
        while pending and len(found) < _MOST_CALLS:
            for user in self._users(pending.pop(0)):
                if user not in found and user not in self.freed:
                    found.add(user)
                    if not needs_kernel(user):
                        pending.append(user)
        return found

    def _sources(self) -> set[Node]:
        """Return the calls that the change reads, through calls that may join its kernel."""
        found: set[Node] = set()
        pending = [value.node for node in (*self.freed, *self.added) for value in node.operands]
        pending += [new.node for new in self.new_for.values()]
        while pending and len(found) < _MOST_CALLS:
            node = pending.pop(0)
            if node in found or not node.is_call:
                continue
            if node not in self.freed and node not in self.added:
                found.add(node)
                if not needs_kernel(node):
                    pending.extend(value.node for value in node.operands)
        return found

    def _users(self, node: Node) -> list[Node]:
        return [user for user in self.graph.users(node) if user.number <= self.mark]

    def _readers_before(self, value: Value) -> tuple[set[Node], bool]:
        return set(self._users(value.node)), self.graph.is_output(value.node)

    def _readers_after(self, value: Value) -> tuple[set[Node], bool]:
        readers = {user for user in self._users(value.node) if user not in self.freed}
        readers.update(user for user in self.graph.users(value.node) if user in self.added)
        is_returned = self.graph.is_output(value.node)
        for old, new in self.new_for.items():
            if new.node is value.node:
                readers.update(user for user in self._users(old.node) if user not in self.freed)
                is_returned = is_returned or old in self.graph.outputs
        return readers, is_returned


@dataclass(frozen=True)
class _Cut:
    """Calls to copy, the values to read instead of others, and who reads a value in the model."""

    calls: Collection[Node]
    new_for: Mapping[Value, Value]
    readers: Callable[[Value], tuple[set[Node], bool]]
    _copies: dict[Value, Value] = field(default_factory=dict)

    def graph(self) -> Graph:
        """Return a graph of the calls; what is read from outside is an input of it."""
        graph = Graph(_no_inference)
        known: set[Node] = set()
        copied: list[Node] = []
        for node in self._in_order():
            values = [self._read(value) for value in node.operands]
            if all(value.is_constant or value.node in known for value in values):
                known.add(node)  # folded, and no kernel
                continue
            made = graph.call_node(
                node.op,
                [self._copy(graph, value) for value in values],
                node.attrs,
                grouping=node.grouping,
                outputs=node.outputs,
                returns_tuple=node.returns_tuple,
                payload=node.payload,
                name=node.name,
            )
            self._copies.update(zip(node, made, strict=True))
            copied.append(node)
        graph.outputs = tuple(self._copies[value] for value in self._read_outside(copied))
        graph.returns_tuple = True
        return graph

    def _read(self, value: Value) -> Value:
        return self.new_for.get(value, value)

    def _copy(self, graph: Graph, value: Value) -> Value:
        if value not in self._copies:
            is_small = value.is_constant and value.type.bytes <= _LARGEST_CONSTANT_BYTES
            self._copies[value] = (
                graph.constant(np.asarray(value.array))
                if is_small
                else graph.input(f"input {len(self._copies)}", value.type)
            )
        return self._copies[value]

    def _read_outside(self, copied: Iterable[Node]) -> Iterable[Value]:
        for node in copied:
            for value in node:
                readers, is_returned = self.readers(value)
                if is_returned or any(reader not in self.calls for reader in readers):
                    yield value

    def _in_order(self) -> list[Node]:
        """Return the calls, operands before users."""
        order: dict[Node, None] = {}
        for start in sorted(self.calls, key=lambda node: node.number):
            stack = [start]
            while stack:
                node = stack[-1]
                operands = [self._read(value).node for value in node.operands]
                waiting = [item for item in operands if item in self.calls and item not in order]
                if node in order or not waiting:
                    order[stack.pop()] = None
                else:
                    stack.extend(waiting)
        return list(order)


def _no_inference(*arguments: Any) -> NoReturn:
    raise AssertionError(f"a copy asked for the types of {arguments[0]}")
