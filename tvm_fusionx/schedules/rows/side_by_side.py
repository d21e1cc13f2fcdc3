"""How many rows are summed side by side: their chains of additions hide each other's latency."""

from __future__ import annotations

import math

from tvm_fusionx.processors.cpu import Cpu


def rows_side_by_side(rows: int, cores: int, most: int, cpu: Cpu) -> int:
    """Return the number of neighbouring rows, a divisor of `rows`, that take the least time.

    Parameters
    ----------
    rows
        Rows to sum, each as a chain of vectors.
    cores
        Cores that share them; each takes whole groups.
    most
        Rows of a group at most.
    cpu
        Adds and loads.
    """
    groups = [number for number in range(1, min(rows, most) + 1) if rows % number == 0]
    return min(groups, key=lambda number: _cycles(rows // number, number, cores, cpu))


def _cycles(groups: int, together: int, cores: int, cpu: Cpu) -> float:
    """Return the cycles of a step along all rows of the core that has most of them."""
    return math.ceil(groups / cores) * max(cpu.addition_latency, together / cpu.loads_a_cycle)
