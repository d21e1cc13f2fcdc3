"""Cut a graph into regions of elementwise operators and reductions, at whatever is neither."""

from __future__ import annotations

from dataclasses import dataclass

from tvm_fusionx.ecg.graph import Graph, Node, Value
from tvm_fusionx.operators import AXIS_REDUCTIONS, MappingType, mapping_type_of

# A choice may drop an operand that broadcasts; laws on it need shapes that equations do not have.
_SHAPE_MATTERS = frozenset(["concatenate", "nn.pad", "split", "strided_slice", "where"])


@dataclass(frozen=True)
class Region:
    """Connected calls of one element type, each elementwise or a reduction that keeps its axes.

    Parameters
    ----------
    nodes
        The calls, operands before users.
    roots
        Values that are read outside of the region, or returned.
    """

    nodes: tuple[Node, ...]
    roots: tuple[Value, ...]


def algebraic_regions(graph: Graph) -> list[Region]:
    """Return the regions of two calls or more, in the order of their first calls.

    A region's tensors have one rank, so that an axis means the same everywhere in it.
    """
    calls = [node for node in graph.calls() if _is_algebraic(node)]
    region_of: dict[Node, int] = {}
    members: dict[int, list[Node]] = {}
    for node in calls:
        beside = {
            region_of[value.node]
            for value in node.operands
            if value.node in region_of and _rank(value.node) == _rank(node)
        }
        home = min(beside, default=node.number)
        merged = sorted(
            (item for key in beside for item in members.pop(key)), key=lambda item: item.number
        )
        members[home] = [*merged, node]
        region_of.update((item, home) for item in members[home])
    place = {node: position for position, node in enumerate(calls)}
    regions = []
    for nodes in members.values():
        ordered = tuple(sorted(nodes, key=place.__getitem__))
        inside = set(ordered)
        roots = tuple(
            node[0]
            for node in ordered
            if graph.is_output(node) or any(user not in inside for user in graph.users(node))
        )
        if len(ordered) > 1:
            regions.append(Region(ordered, roots))
    return regions


def _rank(node: Node) -> int:
    return len(node.outputs[0].shape)


def _is_algebraic(node: Node) -> bool:
    if node.returns_tuple or not node.outputs[0].is_float or node.op in _SHAPE_MATTERS:
        return False
    dtype, rank = node.outputs[0].dtype, _rank(node)
    for value in node.operands:
        is_number = value.is_constant and value.shape == ()
        if value.dtype != dtype or (len(value.shape) != rank and not is_number):
            return False
    if node.op in AXIS_REDUCTIONS:
        return bool(node.attrs.get("keepdims")) and not node.attrs.get("exclude")
    return mapping_type_of(node.op) is MappingType.ONE_TO_ONE
