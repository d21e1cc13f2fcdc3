"""Schedules that planning made of blocks, for the build that follows.

Whether a fast template serves a block is known when it was scheduled: a plan that asks has the
schedules of the blocks that it keeps. The build takes each once; what no build takes is forgotten,
the oldest first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import tvm

from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules.template import Scheduled

# Blocks that wait at most; a plan asks of some dozens.
MOST_WAITING = 128


class HandedOver:
    """Scheduled blocks by target, cores of this process, and structural hash; safe for threads.

    A plan may be made before the process is bound to fewer cores: its schedules are then others
    than the build's, which keeps what it is given for every build to come.
    """

    def __init__(self, most: int = MOST_WAITING) -> None:
        self._most = most
        self._waiting: OrderedDict[tuple[str, int, int], tuple[Any, Scheduled]] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, func: Any, target: tvm.target.Target, scheduled: Scheduled) -> None:
        """Keep what a block became."""
        with self._lock:
            self._waiting[_key(func, target)] = (func, scheduled)
            while len(self._waiting) > self._most:
                self._waiting.popitem(last=False)

    def take(self, func: Any, target: tvm.target.Target) -> Scheduled | None:
        """Return what an equal block became, and forget it; None where none waits."""
        with self._lock:
            found = self._waiting.pop(_key(func, target), None)
        if found is None or not tvm.ir.structural_equal(found[0], func):
            return None
        return found[1]


def _key(func: Any, target: tvm.target.Target) -> tuple[str, int, int]:
    return str(target), describe_cpu(target).cores, int(tvm.ir.structural_hash(func))


handed_over = HandedOver()
