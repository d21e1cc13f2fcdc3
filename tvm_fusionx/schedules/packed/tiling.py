"""How a product with packed weights is divided: panels a task, rows a tile, chains of sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu

# Panels that a task streams side by side.
MOST_PANELS = 4

# With rows to share a weight, as many panels as rows leave registers for.
PANELS_WITH_ROWS = 2

# Registers of a panel besides sums: scale, minimum, and the weights at hand.
REGISTERS_A_PANEL = 3

# An element of the data.
REGISTERS_OF_DATA = 1

# Sums of one place that take turns: a step computes two levels of a byte.
MOST_CHAINS = 4

# Share of the cores' time that the smaller tasks of more panels may lose.
LEAST_BALANCE = 0.95


@dataclass(frozen=True)
class PackedTiling:
    """How a product is divided."""

    panels: int
    """Of a task."""
    rows: int
    """Of a tile."""
    chains: int
    """Sums of each place that hide the latency of each other."""


def panel_choices(panels: int) -> tuple[int, ...]:
    """Return how many panels a task may have, of a weight with `panels`."""
    return tuple(each for each in (1, 2, MOST_PANELS) if panels % each == 0)


def default_panels(panels: int, rows: int, cpu: Cpu) -> int:
    """Return how many panels a task has: many streams, and cores that end together."""
    most = MOST_PANELS if rows == 1 else PANELS_WITH_ROWS
    # A sum of each besides.
    most = min(most, (cpu.registers - REGISTERS_OF_DATA) // (REGISTERS_A_PANEL + 1))

    def balance(each: int) -> float:
        tasks = panels // each
        return tasks / (math.ceil(tasks / cpu.cores) * cpu.cores)

    choices = [each for each in panel_choices(panels) if each <= most]
    even = [each for each in choices if balance(each) >= LEAST_BALANCE]
    return max(even, default=max(choices, key=balance))


def most_rows(panels: int, cpu: Cpu) -> int:
    """Return the rows of a tile that registers hold, beside `panels` panels."""
    left = cpu.registers - REGISTERS_A_PANEL * panels - REGISTERS_OF_DATA
    return max(1, left // panels)


def default_rows(rows: int, panels: int, cpu: Cpu) -> int:
    """Return the rows of a tile: as many as registers hold, all tiles alike."""
    tiles = math.ceil(rows / most_rows(panels, cpu))
    return math.ceil(rows / tiles)


def chains_of(rows: int, panels: int, cpu: Cpu) -> int:
    """Return how many sums of a place take turns, so that none waits for itself."""
    chains = 1
    while chains < MOST_CHAINS and 2 * chains * rows * panels <= cpu.sums_to_hide_latency:
        chains *= 2
    return chains
