"""Parallel tasks: what the number of one means, and pieces of an axis whose last one moves back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tvm import tir

# So that a machine of more cores than the target names has work for them as well.
TASKS_A_CORE = 4


@contextmanager
def tasks(ib: Any, extents: Sequence[int], *, parallel: bool) -> Iterator[list[Any]]:
    """Open the loop over tasks, and give the place of a task along each axis.

    Parameters
    ----------
    extents
        Parts along each axis, outermost first: tasks that follow one another differ in the last.
    parallel
        Whether tasks run on several threads.
    """
    kind = "parallel" if parallel else "serial"
    with ib.for_range(0, math.prod(extents), "task", kind=kind) as task:
        yield coordinates(task, extents)


def coordinates(number: Any, extents: Sequence[int]) -> list[Any]:
    """Return where `number` lies along each axis, outermost first."""
    inner = [math.prod(extents[axis + 1 :]) for axis in range(len(extents))]
    outermost, *others = (tir.floordiv(number, each) for each in inner)
    return [outermost, *map(tir.floormod, others, extents[1:])]


def start_of(number: Any, size: int, extent: int, pieces: int | None = None) -> Any:
    """Return where a piece of an axis begins; the last one moves back to end with the axis.

    Parameters
    ----------
    number
        Which piece.
    size
        Elements of a piece.
    extent
        Elements of the axis.
    pieces
        How many there are; as few as cover the axis when None.
    """
    pieces = math.ceil(extent / size) if pieces is None else pieces
    start = number * size
    return start if pieces * size == extent else tir.min(start, extent - size)


@contextmanager
def shares(ib: Any, total: int, cores: int, together: int = 1) -> Iterator[tuple[Any, Any]]:
    """Open a loop over tasks; give the first channel of a task, and how many it takes.

    Parameters
    ----------
    total
        How many channels there are, of all images.
    cores
        Threads that share them; 1 for no parallel loop.
    together
        Channels that a task does not divide.
    """
    share = math.ceil(total / min(total, cores * TASKS_A_CORE)) if cores > 1 else total
    share = math.ceil(share / together) * together
    with tasks(ib, [math.ceil(total / share)], parallel=cores > 1) as (task,):
        first = task * share
        yield first, share if total % share == 0 else tir.min(share, total - first)
