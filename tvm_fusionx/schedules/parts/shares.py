"""Channels that threads share."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm import tir

# So that a machine of more cores than the target names has work for them as well.
TASKS_A_CORE = 4


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
    kind = "parallel" if cores > 1 else "serial"
    with ib.for_range(0, math.ceil(total / share), "task", kind=kind) as task:
        first = task * share
        yield first, share if total % share == 0 else tir.min(share, total - first)
