"""Answer one question about a plan: what keeps these two nodes together or apart."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tvm_fusionx.errors import InputError
from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry

SUGGESTIONS = 3


@dataclass(frozen=True)
class Answer:
    """What keeps two nodes together or apart.

    Attributes
    ----------
    first, second
        Names of the nodes, in the direction in which data flows if it does.
    blocks
        Names of their blocks.
    path
        The edges from one to the other, by the fewest blocks left; empty where no data flows.
    """

    first: str
    second: str
    blocks: tuple[str, str]
    path: tuple[EdgeEntry, ...] = ()

    @property
    def is_one_block(self) -> bool:
        """Whether both are computed by one kernel."""
        return self.blocks[0] == self.blocks[1]

    @property
    def separation(self) -> EdgeEntry | None:
        """The first edge on the way that was not fused."""
        return next((edge for edge in self.path if not edge.fused), None)

    def __str__(self) -> str:
        if self.is_one_block:
            return f"{self.first} and {self.second} are both in block {self.blocks[0]}."
        where = f"{self.first} is in block {self.blocks[0]}, {self.second} in {self.blocks[1]}."
        edge = self.separation
        if edge is None:
            return f"{where} No data flows from one to the other."
        refused = f"{edge.producer} -> {edge.consumer}: {edge.reason}"
        detail = f" ({edge.detail})" if edge.detail else ""
        others = sum(not other.fused for other in self.path) - 1
        more = f" {others} more edges between them are not fused." if others else ""
        return f"{where} First apart at {refused}{detail}.{more}"


def between(
    blocks: Sequence[BlockEntry], edges: Sequence[EdgeEntry], first: str, second: str
) -> Answer:
    """Tell whether two nodes are in one block, and otherwise what keeps them apart.

    Parameters
    ----------
    blocks, edges
        Of the plan.
    first, second
        Names of nodes of the model, of calls as on the report's edges, or of blocks.

    Raises
    ------
    InputError
        There is no such name.
    """
    starts, goals = _calls(blocks, first), _calls(blocks, second)
    shared = {block.name for block, _ in starts} & {block.name for block, _ in goals}
    if shared:
        name = min(shared)
        return Answer(first, second, (name, name))
    for forward in (True, False):
        sources, targets = (starts, goals) if forward else (goals, starts)
        path = _path(edges, {call for _, call in sources}, {call for _, call in targets})
        if path:
            ends = (first, second) if forward else (second, first)
            return Answer(*ends, (path[0].producer_block, path[-1].consumer_block), tuple(path))
    return Answer(first, second, (starts[0][0].name, goals[0][0].name))


def _calls(blocks: Sequence[BlockEntry], name: str) -> list[tuple[BlockEntry, str]]:
    """Return the calls that a name stands for, each with its block."""
    found = []
    known: list[str] = []
    for block in blocks:
        for call in block.labels:
            # "norm#2" is the second call that the model's node "norm" became.
            base = call.rpartition("#")[0]
            if name in (call, base, block.name):
                found.append((block, call))
            known.append(call)
    if not found:
        known += [block.name for block in blocks]
        close = difflib.get_close_matches(name, known, SUGGESTIONS)
        raise InputError(
            f"node {name}",
            expected="the name of a node or a block of the planned model",
            found="no such name" + (f"; close are {', '.join(close)}" if close else ""),
            next_step="The report's blocks list every name; rewriting may have removed a node.",
        )
    return found


def _path(
    edges: Iterable[EdgeEntry], sources: set[str], targets: set[str]
) -> Sequence[EdgeEntry] | None:
    """Return a shortest chain of edges from one of `sources` to one of `targets`."""
    readers: dict[str, list[EdgeEntry]] = {}
    for edge in edges:
        readers.setdefault(edge.producer, []).append(edge)
    came_by: dict[str, EdgeEntry | None] = dict.fromkeys(sorted(sources))
    pending = list(came_by)
    # Pending grows while it is walked: breadth first.
    for call in pending:
        if call in targets:
            return _walked_back(came_by, call)
        for edge in readers.get(call, ()):
            if edge.consumer not in came_by:
                came_by[edge.consumer] = edge
                pending.append(edge.consumer)
    return None


def _walked_back(came_by: Mapping[str, EdgeEntry | None], call: str) -> list[EdgeEntry]:
    path = []
    edge = came_by[call]
    while edge is not None:
        path.append(edge)
        edge = came_by[edge.producer]
    return path[::-1]
