"""How a product of bytes with packed weights is divided: panels a task, rows a tile."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.packed.tiling import LEAST_BALANCE

# Panels of a task: a lone row streams one after the other, as they lie in memory; more rows share
# what is loaded of their data.
MOST_PANELS = 4
PANELS_OF_A_ROW = 1
PANELS_WITH_ROWS = 2

# Registers of a panel besides sums: the words at hand, masked and shifted.
REGISTERS_A_PANEL = 2

# Four levels of the data, and a mask.
OTHER_REGISTERS = 2

# Of a row and a panel: 32-bit sums of a block, and floats of all.
SUMS = 2


@dataclass(frozen=True)
class BytesTiling:
    """How a product is divided."""

    panels: int
    """Of a task."""
    rows: int
    """Of a tile."""


def panel_choices(panels: int) -> tuple[int, ...]:
    """Return how many panels a task may have, of a weight with `panels`."""
    return tuple(each for each in (1, 2, MOST_PANELS) if panels % each == 0)


def default_panels(panels: int, rows: int, cpu: Cpu) -> int:
    """Return how many panels a task has, so that cores end together."""
    most = PANELS_OF_A_ROW if rows == 1 else PANELS_WITH_ROWS

    def balance(each: int) -> float:
        tasks = panels // each
        return tasks / (math.ceil(tasks / cpu.cores) * cpu.cores)

    choices = [each for each in panel_choices(panels) if each <= most]
    even = [each for each in choices if balance(each) >= LEAST_BALANCE]
    return max(even, default=max(choices, key=balance))


def most_rows(panels: int, cpu: Cpu) -> int:
    """Return the rows of a tile that registers hold, beside `panels` panels."""
    left = cpu.registers - REGISTERS_A_PANEL * panels - OTHER_REGISTERS
    return max(1, left // (SUMS * panels))


def default_rows(rows: int, panels: int, cpu: Cpu) -> int:
    """Return the rows of a tile: as many as registers hold, all tiles alike."""
    tiles = math.ceil(rows / most_rows(panels, cpu))
    return math.ceil(rows / tiles)
