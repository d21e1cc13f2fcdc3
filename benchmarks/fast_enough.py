"""Time only while the machine is as fast as it was asked to be, and tell how fast it was.

A virtual machine shares its cores: for minutes or for hours it may get half of what they can do,
and not all runtimes lose the same by it. What is asked for is told by multiply-adds alone, which no
side has a part in.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

POLL_SECONDS = 5.0


@dataclass
class FastEnough:
    """Waits until the machine does enough multiply-adds a second.

    Attributes
    ----------
    measure
        Returns how many it does now, in GFLOP/s.
    least
        Waits for so many; nothing is waited for by default.
    seen
        What was measured when no more was to be waited for.
    waited_s
        Seconds that went by in waiting.
    """

    measure: Callable[[], float]
    least: float = 0.0
    sleep: Callable[[float], Any] = time.sleep
    seen: list[float] = field(default_factory=list)
    waited_s: float = 0.0

    def is_fast(self) -> bool:
        """Measure once; tell whether the machine is fast enough."""
        speed = self.measure()
        if speed < self.least:
            return False
        self.seen.append(speed)
        return True

    def pause(self) -> None:
        """Let some time go by before the next look."""
        self.sleep(POLL_SECONDS)
        self.waited_s += POLL_SECONDS

    def wait(self) -> None:
        """Return once the machine is fast enough."""
        while not self.is_fast():
            self.pause()

    def to_json(self) -> dict[str, float]:
        """Return what was asked for, waited and seen; GFLOP/s and seconds."""
        return {
            "asked": self.least,
            "waited_s": self.waited_s,
            "median": float(np.median(self.seen)),
            "least": min(self.seen),
        }
