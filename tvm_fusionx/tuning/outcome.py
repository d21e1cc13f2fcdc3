"""What comes of a trial."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Kinds of failure that take the device, or its server, with them.
DEVICE_LOST = "device lost"
TIMEOUT = "timeout"
QUARANTINED_KINDS = (DEVICE_LOST, TIMEOUT)
# What a trial that was cut short until it may not be tried again is reported as.
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Outcome:
    """What came of one trial."""

    seconds: tuple[float, ...] = ()
    """Time of one run, measured several times; none where it failed."""

    failure: str | None = None
    """Kind of failure."""

    detail: str = ""
    """What was said about it."""

    @property
    def is_quarantined(self) -> bool:
        """Tell whether it took the device with it, and must never be tried again."""
        return self.failure in (*QUARANTINED_KINDS, INTERRUPTED)

    @property
    def least_seconds(self) -> float:
        """Return the least of its times, since what disturbs adds; infinity where it failed."""
        return min(self.seconds, default=math.inf)
