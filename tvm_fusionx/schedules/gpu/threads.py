"""Give loops to work-items."""

from __future__ import annotations

import math
from typing import Any

from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.parts.nest import extent

# Axes of OpenCL's index space, fastest first.
GROUPS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
ITEMS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")

# Work-items of a group where nothing else decides: two Adreno waves of 64, four of Mali's 16.
DEFAULT_ITEMS = 128


def work_items(gpu: Gpu, points: int, wanted: int = DEFAULT_ITEMS) -> int:
    """Return the work-items of a group for `points` independent results: a power of two."""
    most = min(wanted, gpu.items)
    while most > 1 and most // 2 >= points:
        most //= 2
    return most


def bind_flat(sch: Any, loops: list[Any], items: int) -> Any:
    """Spread the points of `loops` over work-items, neighbours to neighbours; return the item."""
    fused = sch.fuse(*loops) if len(loops) > 1 else loops[0]
    count = extent(sch, fused)
    group, item = sch.split(fused, [None, min(items, count)])
    sch.bind(group, GROUPS[0])
    sch.bind(item, ITEMS[0])
    return item


def shares_of(extents: list[int], wanted: int) -> list[int]:
    """Return how many points of each axis one group covers, `wanted` in all at most.

    The innermost axis first, the next ones where it fits as a whole. A share divides its axis where
    such a share is not much smaller than `wanted`; elsewhere the last group has a test.
    """
    shares = [1] * len(extents)
    for axis in reversed(range(len(extents))):
        length = extents[axis]
        most = min(length, wanted)
        share = max(each for each in range(1, most + 1) if length % each == 0)
        shares[axis] = share if 2 * share > most else power_up_to(most, most)
        wanted //= shares[axis]
        if shares[axis] < length or wanted < 2:
            break
    return shares


def power_up_to(points: int, most: int) -> int:
    """Return the smallest power of two that covers `points`, at most `most`, at least 1."""
    power = 1
    while power < points and 2 * power <= most:
        power *= 2
    return power


def split_shares(sch: Any, loops: list[Any], wanted: int) -> tuple[Any, Any]:
    """Divide the points of `loops` into groups of `wanted` items at most; return both loops.

    Each axis is divided by itself, so that TVM can tell its place from a group and an item: it
    cannot once axes were fused first.
    """
    shares = shares_of([extent(sch, loop) for loop in loops], wanted)
    groups, items = [], []
    for loop, share in zip(loops, shares, strict=True):
        group, item = sch.split(loop, [None, share])
        groups.append(group)
        items.append(item)
    sch.reorder(*groups, *items)
    return _fused(sch, groups), _fused(sch, items)


def bind_shares(sch: Any, loops: list[Any], wanted: int) -> Any:
    """Spread the points of `loops` over groups of `wanted` items at most; return the item."""
    group, item = split_shares(sch, loops, wanted)
    sch.bind(group, GROUPS[0])
    sch.bind(item, ITEMS[0])
    return item


def _fused(sch: Any, loops: list[Any]) -> Any:
    return sch.fuse(*loops) if len(loops) > 1 else loops[0]


def points_of(sch: Any, loops: list[Any]) -> int:
    """Return how many points `loops` have."""
    return math.prod(extent(sch, loop) for loop in loops)
