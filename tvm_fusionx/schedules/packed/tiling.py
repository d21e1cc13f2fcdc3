"""How a product with packed weights is divided: panels a task, rows a tile, chains of sums."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu

# Most panels of a task.
MOST_PANELS = 4

# Where rows share what is loaded of a panel.
PANELS_WITH_ROWS = 2

# Sums of one place that take turns: a step computes two levels of a byte.
MOST_CHAINS = 4

# Share of the cores' time that the smaller tasks of more panels may lose.
LEAST_BALANCE = 0.95


@dataclass(frozen=True)
class Held:
    """What a kernel holds in registers, and how it reads panels for a lone row."""

    a_panel: int
    """Registers of a panel besides sums."""
    others: int
    """Registers of all panels and rows together."""
    sums: int
    """Registers of a row and a panel."""
    panels_of_a_row: int
    """Panels that a lone row reads side by side, at most."""


# Scale, minimum, and the weights at hand; an element of the data.
FLOATS = Held(a_panel=3, others=1, sums=1, panels_of_a_row=MOST_PANELS)

# The words at hand, masked and shifted; four levels of the data, and a mask; 32-bit sums of a
# block, and floats of all. A lone row reads one panel after the other, as they lie in memory.
ROUNDED = Held(a_panel=2, others=2, sums=2, panels_of_a_row=1)


@dataclass(frozen=True)
class PackedTiling:
    """How a product is divided."""

    panels: int
    """Of a task."""
    rows: int
    """Of a tile."""
    chains: int = 1
    """Sums of each place that hide the latency of each other."""


def panel_choices(panels: int) -> tuple[int, ...]:
    """Return how many panels a task may have, of a weight with `panels`."""
    return tuple(each for each in (1, 2, MOST_PANELS) if panels % each == 0)


def default_panels(panels: int, rows: int, cpu: Cpu, held: Held) -> int:
    """Return how many panels a task has: many streams, and cores that end together."""
    most = held.panels_of_a_row if rows == 1 else PANELS_WITH_ROWS
    # One row, at least.
    most = min(most, (cpu.registers - held.others) // (held.a_panel + held.sums))

    def balance(each: int) -> float:
        tasks = panels // each
        return tasks / (math.ceil(tasks / cpu.cores) * cpu.cores)

    choices = [each for each in panel_choices(panels) if each <= most]
    even = [each for each in choices if balance(each) >= LEAST_BALANCE]
    return max(even, default=max(choices, key=balance))


def most_rows(panels: int, cpu: Cpu, held: Held) -> int:
    """Return the rows of a tile that registers hold, beside `panels` panels."""
    left = cpu.registers - held.a_panel * panels - held.others
    return max(1, left // (held.sums * panels))


def default_rows(rows: int, panels: int, cpu: Cpu, held: Held) -> int:
    """Return the rows of a tile: as many as registers hold, all tiles alike."""
    tiles = math.ceil(rows / most_rows(panels, cpu, held))
    return math.ceil(rows / tiles)


def chains_of(rows: int, panels: int, cpu: Cpu) -> int:
    """Return how many sums of a place take turns, so that none waits for itself."""
    chains = 1
    while chains < MOST_CHAINS and 2 * chains * rows * panels <= cpu.sums_to_hide_latency:
        chains *= 2
    return chains
