"""How a recurrent layer's kernel is divided: rows and units of a tile, and what the cores share."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tvm_fusionx.operators.recurrent_layer import PANEL, Layer
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts.tasks import TASKS_A_CORE

FLOAT_BYTES = 4

# Units of a tile at most: four panels, as streams side by side.
MOST_UNITS = 64

# Rows of a tile at most.
MOST_ROWS = 8

# Sums of one place that take turns, at most.
MOST_CHAINS = 4

# Cycles of a microsecond: the cores that serve take between 2.5 and 4 thousand.
CYCLES_A_US = 3000


@dataclass(frozen=True)
class RecurrentTiling:
    """How a layer is divided."""

    lanes: int
    """Of a vector."""
    rows: int
    """Sequences of a tile."""
    units: int
    """Of a tile; part of a panel, or some panels."""
    chains: int
    """Sums of each place that hide the latency of each other."""
    slices: int
    """Tasks that share the sequences of a direction and go through all steps alone; 0 where the
    cores share the units of each step instead."""
    groups: int
    """Tasks that share the units of a direction in each step."""


def unit_choices(layer: Layer, cpu: Cpu) -> tuple[int, ...]:
    """Return how many units a tile may have: parts of a panel, or panels that divide all."""
    parts = [each for each in (4, 8, PANEL) if each >= cpu.lanes]
    several = [each * PANEL for each in (2, 3, MOST_UNITS // PANEL) if layer.panels % each == 0]
    return (*parts, *several)


def row_choices(layer: Layer) -> tuple[int, ...]:
    """Return how many sequences a tile may have."""
    return tuple(range(1, min(layer.batch, MOST_ROWS) + 1))


def default_tile(layer: Layer, cpu: Cpu) -> tuple[int, int]:
    """Return rows and units of a tile: the least time of all gates' products."""
    gates = max(map(len, layer.phases))
    best: tuple[float, int, int] | None = None
    for rows in row_choices(layer):
        for units in unit_choices(layer, cpu):
            vectors = gates * units // cpu.lanes
            if not _fits(rows, vectors, cpu) and (rows, units) != (1, unit_choices(layer, cpu)[0]):
                continue
            done = math.ceil(layer.batch / rows) * rows * math.ceil(layer.hidden / units) * units
            sums = rows * vectors * chains_of(rows * vectors, cpu)
            waits = max(1.0, cpu.sums_to_hide_latency / sums)
            loads = (rows + vectors) / (rows * vectors) / cpu.loads_a_cycle
            # Every tile of rows reads the weights of its units again.
            held = layer.hidden * gates * units * FLOAT_BYTES
            streamed = 0.0 if held <= cpu.l1_bytes else cpu.lanes * FLOAT_BYTES / rows
            cost = done * max(waits / cpu.multiply_adds, loads, streamed / cpu.l2_bytes_a_cycle)
            found = (cost, -rows, -units)
            best = found if best is None else min(best, found)
    assert best is not None
    return -best[1], -best[2]


def _fits(rows: int, vectors: int, cpu: Cpu) -> bool:
    """Tell whether the registers hold sums, weights where rows share them, and elements."""
    weights = vectors if rows > 1 else 1
    elements = rows + 2 if cpu.multiplies_by_lane else 1
    return rows * vectors + weights + elements <= cpu.registers


def chains_of(sums: int, cpu: Cpu) -> int:
    """Return how many sums of a place take turns, so that none waits for itself."""
    chains = 1
    while chains < MOST_CHAINS and 2 * chains * sums <= cpu.sums_to_hide_latency:
        chains *= 2
    return chains


def most_slices(layer: Layer, cpu: Cpu) -> int:
    """Return how many tasks share a direction's sequences, where each goes through all steps."""
    return max(1, min(layer.batch, math.ceil(cpu.cores / layer.directions)))


def group_count(layer: Layer, units: int, cpu: Cpu) -> int:
    """Return how many tasks share a direction's units, where the cores share each step."""
    blocks = math.ceil(layer.hidden / units)
    wanted = max(1, cpu.cores * TASKS_A_CORE // layer.directions)
    return math.ceil(blocks / math.ceil(blocks / wanted))


def shares_steps(layer: Layer, cpu: Cpu) -> bool:
    """Tell whether the cores share each step: a launch a step, and each core has its weights."""
    slices = most_slices(layer, cpu)
    tasks = layer.directions * slices
    alone = math.ceil(tasks / cpu.cores) * _cycles(layer, math.ceil(layer.batch / slices), 1, cpu)
    launches = len(layer.phases) * cpu.wake_up_us * CYCLES_A_US
    together = layer.directions * _cycles(layer, layer.batch, cpu.cores, cpu) + launches
    return cpu.cores > 1 and together < alone


def _cycles(layer: Layer, rows: int, cores: int, cpu: Cpu) -> float:
    """Return the cycles of a direction's step where so many cores share its weights."""
    weights = layer.weights / cores
    products = rows * weights / (cpu.lanes * cpu.multiply_adds)
    held = weights * FLOAT_BYTES
    if cores > 1:
        held *= layer.directions
    rates = [(cpu.l1_bytes, cpu.loads_a_cycle * cpu.lanes * FLOAT_BYTES)]
    rates += [(cpu.l2_bytes, cpu.l2_bytes_a_cycle), (cpu.llc_slice_bytes, cpu.llc_bytes_a_cycle)]
    rate = next((rate for size, rate in rates if held <= size), cpu.memory_bytes_a_cycle)
    return max(products, weights * FLOAT_BYTES / rate)
