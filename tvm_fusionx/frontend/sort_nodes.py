"""Nodes in the order of their data, as ONNX demands it and not every tool writes it."""

from __future__ import annotations

import heapq
from typing import Any

import onnx

from tvm_fusionx.errors import ModelError

EXPORT_AGAIN = "Export or download the model again."


def sort_model(model: Any, thing: str) -> Any:
    """Return `model` with the nodes of all its graphs in the order of their data.

    The model itself where that changes nothing; else a copy.

    Raises
    ------
    ModelError
        If a node reads what nothing makes, two nodes make the same, or nodes wait for one another.
    """
    if not _sort(model.graph, frozenset(), thing, should_change=False):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _sort(copy.graph, frozenset(), thing, should_change=True)
    return copy


def defined_names(graph: Any) -> set[str]:
    """Return the names that a graph has before its first node."""
    names = {"", *(info.name for info in graph.input)}
    names.update(tensor.name for tensor in graph.initializer)
    names.update(tensor.values.name for tensor in graph.sparse_initializer)
    return names


def _subgraphs(node: Any) -> list[Any]:
    return [
        graph
        for attribute in node.attribute
        for graph in ([attribute.g] if attribute.HasField("g") else attribute.graphs)
    ]


def _needs(node: Any) -> set[str]:
    """Return the names that a node reads, those of its subgraphs from outside among them."""
    names = set(node.input)
    waiting = [(graph, frozenset[str]()) for graph in _subgraphs(node)]
    while waiting:
        graph, outer = waiting.pop()
        inside = outer | defined_names(graph)
        inside = inside.union(*(inner.output for inner in graph.node))
        names.update(info.name for info in graph.output if info.name not in inside)
        for inner in graph.node:
            names.update(name for name in inner.input if name not in inside)
            waiting.extend((each, inside) for each in _subgraphs(inner))
    return names


def _sort(graph: Any, outer: frozenset[str], thing: str, should_change: bool) -> bool:
    """Tell whether a graph, or one within it, is not in order; put it in order if so asked."""
    given = outer | defined_names(graph)
    nodes = list(graph.node)
    maker: dict[str, int] = {}
    for number, node in enumerate(nodes):
        for name in node.output:
            if name and (name in maker or name in given - outer):
                raise ModelError(
                    f"{_show(node)} in {thing}",
                    expected="results that nothing else makes",
                    found=f"{name!r}, which is there already",
                    next_step=f"The graph is damaged. {EXPORT_AGAIN}",
                )
            maker[name] = number
    maker.pop("", None)
    needs = [_needs(node) for node in nodes]
    for node, names in zip(nodes, needs, strict=True):
        missing = sorted(name for name in names if name not in maker and name not in given)
        if missing:
            raise ModelError(
                f"{_show(node)} in {thing}",
                expected="inputs that the graph has",
                found=f"{missing[0]!r}, which nothing makes",
                next_step=f"The graph is incomplete. {EXPORT_AGAIN}",
            )
    absent = [i.name for i in graph.output if i.name not in maker and i.name not in given]
    if absent:
        raise ModelError(
            thing,
            expected="every output to be made by a node",
            found=f"output {absent[0]!r}, which nothing makes",
            next_step=f"The graph is incomplete. {EXPORT_AGAIN}",
        )
    order = _order(nodes, [{maker[n] for n in names if n in maker} for names in needs], thing)
    is_unsorted = order != list(range(len(nodes)))
    inside = frozenset(given | maker.keys())
    # Before they are put in order, which copies them.
    is_unsorted_within = [
        _sort(inner, inside, thing, should_change) for node in nodes for inner in _subgraphs(node)
    ]
    if is_unsorted and should_change:
        sorted_nodes = [onnx.NodeProto.FromString(nodes[i].SerializeToString()) for i in order]
        del graph.node[:]
        graph.node.extend(sorted_nodes)
    return is_unsorted or any(is_unsorted_within)


def _order(nodes: list[Any], before: list[set[int]], thing: str) -> list[int]:
    """Return the numbers of nodes, each after those that it waits for, else as they were."""
    after: list[list[int]] = [[] for _ in nodes]
    for number, earlier in enumerate(before):
        for each in earlier:
            after[each].append(number)
    waits = [len(earlier) for earlier in before]
    ready = [number for number, count in enumerate(waits) if not count]
    order: list[int] = []
    while ready:
        number = heapq.heappop(ready)
        order.append(number)
        for later in after[number]:
            waits[later] -= 1
            if not waits[later]:
                heapq.heappush(ready, later)
    if len(order) < len(nodes):
        stuck = next(number for number, count in enumerate(waits) if count)
        raise ModelError(
            f"{_show(nodes[stuck])} in {thing}",
            expected="inputs made by other nodes",
            found="nodes that wait for one another in a circle",
            next_step=f"The graph is damaged. {EXPORT_AGAIN}",
        )
    return order


def _show(node: Any) -> str:
    # Many exporters name results alone.
    return f"{node.op_type} node {node.name or next(iter(node.output), '')!r}"
