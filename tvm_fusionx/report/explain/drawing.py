"""What a page shows of a plan: the blocks that are kernels, equal ones together, what links them.

A reshape that needs no kernel is no block here: what it links is linked directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry
from tvm_fusionx.report.explain.layered_drawing import folded, layered_positions
from tvm_fusionx.report.explain.legend import FREE_RESHAPE

# A block is drawn 214 pixels wide and 74 high, in a window about as wide as it is high.
ROWS_PER_COLUMN = 214 / 74

Link = tuple[str, str]


def kernels_of(blocks: Iterable[BlockEntry]) -> tuple[BlockEntry, ...]:
    """Return the blocks that launch a kernel."""
    return tuple(block for block in blocks if not block.is_reshape_only)


def grouped(kernels: Sequence[BlockEntry]) -> list[list[int]]:
    """Return the places of equal kernels together, in order of the first of each group."""
    groups: dict[str, list[int]] = {}
    for place, block in enumerate(kernels):
        # Of a block whose structure is unknown, only its name is equal.
        groups.setdefault(block.structure or f"only {block.name}", []).append(place)
    return list(groups.values())


def directly(links: Iterable[Link], skipped: Iterable[str]) -> list[Link]:
    """Return `links` with each chain through `skipped` as one link from its first to its last."""
    left_out = set(skipped)
    producers: dict[str, list[str]] = {}
    kept: dict[Link, None] = {}
    pairs = [(producer, consumer) for producer, consumer in links if producer != consumer]
    for producer, consumer in pairs:
        producers.setdefault(consumer, []).append(producer)
    for producer, consumer in pairs:
        if consumer in left_out:
            continue
        for source in _sources(producer, producers, left_out):
            kept[source, consumer] = None
    return list(kept)


def _sources(name: str, producers: Mapping[str, list[str]], left_out: set[str]) -> list[str]:
    """Return `name`, or what it comes from where it is left out."""
    found: dict[str, None] = {}
    seen = {name}
    stack = [name]
    while stack:
        current = stack.pop()
        if current not in left_out:
            found[current] = None
            continue
        fresh = [producer for producer in producers.get(current, ()) if producer not in seen]
        seen.update(fresh)
        stack.extend(fresh)
    return list(found)


def border_edges(blocks: Sequence[BlockEntry], edges: Sequence[EdgeEntry]) -> list[dict[str, Any]]:
    """Return each refused edge between two kernels; last those that lead through free reshapes."""
    free = {block.name for block in blocks if block.is_reshape_only}
    producers: dict[str, list[str]] = {}
    for edge in edges:
        if edge.producer_block != edge.consumer_block:
            producers.setdefault(edge.consumer_block, []).append(edge.producer_block)
    found = []
    for edge in edges:
        if edge.fused or edge.consumer_block in free:
            continue
        for source in _sources(edge.producer_block, producers, free):
            row = {"from": source, "to": edge.consumer_block, "bytes": edge.bytes}
            found.append(row | {"reason": edge.reason, "detail": edge.detail})
    return sorted(found, key=lambda row: row["reason"] == FREE_RESHAPE)


def drawing_of(blocks: Sequence[BlockEntry], edges: Sequence[EdgeEntry]) -> dict[str, Any]:
    """Return where kernels and their operators are drawn and what links them, by place.

    Returns
    -------
    dict
        ``positions`` and ``links`` of the kernels, ``groups`` of equal ones, ``border`` with the
        refused edges between them; ``operators`` with the same of their operators and ``owners``.
    """
    kernels = kernels_of(blocks)
    free = [block for block in blocks if block.is_reshape_only]
    names = {block.name: place for place, block in enumerate(kernels)}
    border = ((edge.producer_block, edge.consumer_block) for edge in edges)
    calls: dict[str, int] = {}
    owners: list[int] = []
    for place, block in enumerate(kernels):
        for label in block.labels:
            calls[label] = len(owners)
            owners.append(place)
    inner = ((edge.producer, edge.consumer) for edge in edges)
    free_calls = [label for block in free for label in block.labels]
    return {
        **_placed(len(kernels), names, directly(border, [block.name for block in free])),
        "operators": {**_placed(len(owners), calls, directly(inner, free_calls)), "owners": owners},
        "groups": grouped(kernels),
        "border": border_edges(blocks, edges),
    }


def _placed(count: int, index: Mapping[str, int], pairs: Iterable[Link]) -> dict[str, Any]:
    links = sorted(
        {
            (index[producer], index[consumer])
            for producer, consumer in pairs
            if producer in index and consumer in index
        }
    )
    return {"positions": folded(layered_positions(count, links), ROWS_PER_COLUMN), "links": links}
