"""Where tensors are quantised, for a set of units that are.

A tensor is quantised once, where it is made, and not behind each layer: behind the activation that
follows a layer, whose range is narrower, and before what only moves numbers and then moves bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from tvm_fusionx.compress.quantize.model_graph import Edge, ModelGraph
from tvm_fusionx.compress.quantize.units import SUM, Unit

# Moves keep each number; a maximum keeps the order, so that the rounded maximum is the maximum of
# rounded numbers.
PURE_MOVES = frozenset({"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"})
MOVES = PURE_MOVES | {"MaxPool"}
CONCAT = "Concat"


@dataclass
class Placement:
    """What is quantised where.

    Attributes
    ----------
    edges
        For each tensor that is quantised, the readers that take the integers.
    shared
        For a tensor that is quantised with the scale of another, that other.
    """

    edges: dict[str, list[Edge]] = field(default_factory=dict)
    shared: dict[str, str] = field(default_factory=dict)

    def range_of(self, graph: ModelGraph, tensor: str) -> str:
        """Return the tensor whose range a quantised one has."""
        return moved_from(graph, self.shared.get(tensor, tensor))


def moved_from(graph: ModelGraph, tensor: str) -> str:
    """Return the tensor whose numbers, all of them, `tensor` holds in another shape."""
    while (node := graph.producers.get(tensor)) is not None and node.op_type in PURE_MOVES:
        tensor = node.input[0]
    return tensor


def place(graph: ModelGraph, units: Sequence[Unit], active: Collection[str]) -> Placement:
    """Return where tensors are quantised when the units named in `active` read integers."""
    wanted: dict[tuple[str, int], Unit] = {
        (unit.name, position): unit
        for unit in units
        if unit.name in active
        for position in unit.data
    }
    placement = Placement()
    nodes = {node.name: node for node in graph.nodes}

    def add(tensor: str, edge: Edge) -> None:
        edges = placement.edges.setdefault(tensor, [])
        if all(edge[0] is not node or edge[1] != position for node, position in edges):
            edges.append(edge)

    for (name, position), unit in wanted.items():
        if unit.kind != SUM:
            edge = nodes[name], position
            tensor = nodes[name].input[position]
            while (above := _above(graph, tensor, wanted)) is not None:
                edge, tensor = (graph.producers[tensor], 0), above
            add(tensor, edge)
    for (name, position), unit in wanted.items():
        tensor = nodes[name].input[position]
        if unit.kind == SUM and tensor in placement.edges:
            add(tensor, (nodes[name], position))
    _share(graph, placement, active)
    return placement


def _above(graph: ModelGraph, tensor: str, wanted: Collection[tuple[str, int]]) -> str | None:
    """Return the input of the move that makes `tensor`, if all that read it take integers."""
    node = graph.producers.get(tensor)
    if node is None or node.op_type not in MOVES or tensor in graph.outputs:
        return None
    if not graph.is_activation(node.input[0]) or any(node.output[1:]):
        return None
    is_alone = all(_takes_integers(graph, reader, wanted) for reader in graph.readers[tensor])
    return str(node.input[0]) if is_alone else None


def _takes_integers(graph: ModelGraph, edge: Edge, wanted: Collection[tuple[str, int]]) -> bool:
    """Tell whether a reader takes integers, itself or all that it moves them to."""
    waiting = [edge]
    while waiting:
        node, position = waiting.pop()
        if (node.name, position) in wanted:
            continue
        if node.op_type not in MOVES or position != 0 or node.output[0] in graph.outputs:
            return False
        waiting += graph.readers[node.output[0]]
    return True


def _share(graph: ModelGraph, placement: Placement, active: Collection[str]) -> None:
    """Let the parts of a concatenation have its scale where nothing else reads them.

    It costs nothing: the whole, which is quantised with that scale anyway, is the same numbers.
    """
    for tensor in list(placement.edges):
        node = graph.producers.get(tensor)
        if node is None or node.op_type != CONCAT or node.name not in active:
            continue
        for position, part in enumerate(node.input):
            is_own = len(graph.readers[part]) == 1 and part not in graph.outputs
            if is_own and part in graph.producers and part not in placement.edges:
                placement.edges[part] = [(node, position)]
                placement.shared[part] = placement.shared.get(tensor, tensor)
