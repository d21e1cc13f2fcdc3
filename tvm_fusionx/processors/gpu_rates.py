"""What is published of phones' GPUs: units, clock, memory; ``gpus.json`` has a source for each."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path

from tvm_fusionx.errors import TargetError

FILE = Path(__file__).with_name("gpus.json")

KILO = 1000


@dataclass(frozen=True)
class GpuRates:
    """The published numbers of one GPU. None of them was measured here."""

    name: str
    alus: int
    """Multiply-adds of float32 in a cycle, all units together."""
    mhz: int
    """Clock, megahertz."""
    memory_gb_a_second: float
    """Memory bandwidth, gigabytes a second, shared with the processor's cores."""
    half_rate: float
    """How many times as many operations of float16 as of float32 a cycle has."""

    def compute_us(self, single: float, half: float, items: int) -> float:
        """Return the least time of operations, each one of an ALU for a cycle; microseconds.

        Parameters
        ----------
        single, half
            Operations of float32, and of float16.
        items
            Work-items: fewer than ALUs leave the others idle.
        """
        busy = min(self.alus, max(items, 1))
        return (single + half / self.half_rate) / (busy * self.mhz)

    def memory_us(self, moved_bytes: float) -> float:
        """Return the least time in which bytes cross the memory bus, microseconds."""
        return moved_bytes / (self.memory_gb_a_second * KILO)


@functools.cache
def known_gpus() -> dict[str, GpuRates]:
    """Return what is known, by name."""
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    return {
        name: GpuRates(name, **{fact: told["value"] for fact, told in row.items()})
        for name, row in rows.items()
    }


def gpu_named(name: str) -> GpuRates:
    """Return the published numbers of a GPU.

    Raises
    ------
    TargetError
        None are known of it.
    """
    known = known_gpus()
    if name not in known:
        raise TargetError(
            f"GPU {name!r}",
            expected=f"one of {', '.join(known)}",
            found="another name",
            next_step=f"Add a row with its sources to {FILE.name}.",
        )
    return known[name]
