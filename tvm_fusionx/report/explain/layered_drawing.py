"""Places the blocks of a plan in layers, producers above consumers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

Place = tuple[float, int]
"""``(column, layer)``."""


def layered_positions(count: int, links: Sequence[tuple[int, int]]) -> list[Place]:
    """Return a place for each node of an acyclic graph.

    A node's layer is one below its lowest producer's. Within a layer, nodes stand in the order of
    the mean place of their producers, so that chains run straight down.

    Parameters
    ----------
    count
        Number of nodes.
    links
        ``(producer, consumer)`` pairs of node indices.

    Returns
    -------
    list of (float, int)
        ``(column, layer)`` of each node; columns of a layer are one apart and centred on 0.

    Raises
    ------
    ValueError
        The links form a cycle.
    """
    producers: dict[int, list[int]] = defaultdict(list)
    consumers: dict[int, list[int]] = defaultdict(list)
    for producer, consumer in links:
        producers[consumer].append(producer)
        consumers[producer].append(consumer)

    layer = [0] * count
    waiting = [len(producers[node]) for node in range(count)]
    ready = [node for node in range(count) if not waiting[node]]
    placed = 0
    while ready:
        node = ready.pop()
        placed += 1
        for consumer in consumers[node]:
            layer[consumer] = max(layer[consumer], layer[node] + 1)
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    if placed < count:
        raise ValueError(f"the links form a cycle through {count - placed} of {count} nodes")

    members: dict[int, list[int]] = defaultdict(list)
    for node in range(count):
        members[layer[node]].append(node)
    column = [0.0] * count
    for depth in sorted(members):
        wanted = {
            node: sum(column[p] for p in producers[node]) / max(1, len(producers[node]))
            for node in members[depth]
        }
        row = sorted(members[depth], key=lambda node: (wanted[node], node))
        # A layer keeps its distances and moves as one, so that a lone chain stays in its column.
        start = sum(wanted.values()) / len(row) - (len(row) - 1) / 2
        for place, node in enumerate(row):
            column[node] = start + place
    return [(round(column[node], 2), layer[node]) for node in range(count)]


def folded(positions: Sequence[Place], rows_per_column: float) -> list[Place]:
    """Cut a deep drawing into strips that stand side by side, so that it fills a window.

    Parameters
    ----------
    positions
        What :func:`layered_positions` returned.
    rows_per_column
        How many layers are as high as one column is wide, in the window's proportions.

    Returns
    -------
    list of (float, int)
        ``(column, row)`` of each node; the drawing as it was when it is not deep.
    """
    if not positions:
        return []
    depth = 1 + max(layer for _, layer in positions)
    strips = 1
    while True:
        height = -(-depth // strips)
        bounds: dict[int, tuple[float, float]] = {}
        for column, layer in positions:
            left, right = bounds.get(layer // height, (column, column))
            bounds[layer // height] = (min(left, column), max(right, column))
        # One column between strips keeps them apart.
        width = sum(right - left + 2 for left, right in bounds.values()) - 1
        if width * rows_per_column >= height:
            break
        strips += 1
    start = 0.0
    shift = {}
    for strip, (left, right) in sorted(bounds.items()):
        shift[strip] = start - left
        start += right - left + 2
    return [
        (round(column + shift[layer // height], 2), layer % height) for column, layer in positions
    ]
