"""How a sparse product is divided, and what it costs: counted from the processor's row.

A tile is some results of neighbouring places for the channels of one group: its sums stay in
registers while the group's list is read once. An entry of the list costs its offset, its vectors of
weights, an element of each place of the tile, and a multiply-add for each place and vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product as product_of

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES, LINE_BYTES
from tvm_fusionx.tir.numbers import prime_factors

# Sums of one place that take turns.
MOST_CHAINS = 4

# Pieces of the result that each core gets, where there are enough.
MOST_TASKS_A_CORE = 4

# Instructions to begin and end a tile's list, besides those for each sum; of each sum: set to zero,
# what follows, stored.
CYCLES_A_LIST = 12
CYCLES_A_SUM = 2

# Over what is gathered, where the second-level cache does not hold it: read, written, read again.
PASSES_UNCACHED = 3

# Part of the first-level cache that what stays may fill.
L1_SHARE = 2

# Places of a tile that lie a multiple of half a way apart share two sets of the first-level cache.
WAY_BYTES, WAYS = 4096, 8

# Turning: rows that a step puts together, and loading and storing each vector.
MOST_ROWS_AT_ONCE = 3
CYCLES_TO_MOVE_A_VECTOR = 2

# Starting a task: pointers, loop set-up, the first misses.
TASK_CYCLES = 500


@dataclass(frozen=True)
class Product:
    """A sparse product as a tiling counts it."""

    images: int
    rows: int
    """Of the result; one where windows are single pixels, which then are its columns."""
    columns: int
    groups: int
    entries: int
    """Of all lists."""
    vectors: int
    """Of a group."""
    lanes: int
    row_elements: int
    """Gathered elements of one row of windows; 0 where the data is read as it lies."""
    rows_shared: int
    """Gathered rows that a task reads besides one for each row it moves on."""
    move: int
    """Gathered rows from one row of windows to the next."""
    depth: int
    """Elements of the data of one column, where it is read as it lies."""
    pixel_step: int = 1
    """Elements from a column to the next, as they are read."""
    turned_lanes: int = 1
    """Of a column's elements, how many are turned at once: they lie side by side."""

    @property
    def is_in_place(self) -> bool:
        """Whether the data is read as it lies."""
        return self.row_elements == 0

    @property
    def can_turn(self) -> bool:
        """Whether places of a tile can be put side by side."""
        return self.is_in_place and self.turned_lanes > 1

    @property
    def value_bytes(self) -> int:
        """Of the weights that are stored."""
        return self.entries * self.vectors * self.lanes * FLOAT_BYTES

    def gathered(self, rows: int) -> int:
        """Return the elements that a task of so many rows gathers."""
        return (rows * self.move + self.rows_shared) * self.row_elements


@dataclass(frozen=True)
class Tiling:
    """How a product is divided."""

    rows: int
    """Of a tile."""
    columns: int
    chains: int
    """Sums of each place that take turns, so that none waits for itself."""
    task_rows: int
    """Of a task; one where the data is read as it lies."""
    task_columns: int
    group_parts: int
    """Tasks that share the groups."""
    group_outermost: bool
    """Whether a list stays in the cache for all tiles of a task, or the data of a tile for all
    lists."""
    is_turned: bool = False
    """Whether places of a tile are put side by side first, where the data is read as it lies."""

    @property
    def places(self) -> int:
        """Of a tile."""
        return self.rows * self.columns


def most_places(vectors: int, cpu: Cpu) -> int:
    """Return the places of a tile that registers hold beside its weights and an element."""
    return max(1, (cpu.registers - vectors - 1) // vectors)


def chains_of(places: int, vectors: int, cpu: Cpu) -> int:
    """Return how many sums of a place take turns."""
    chains = 1
    while chains < MOST_CHAINS and 2 * chains * places * vectors <= cpu.sums_to_hide_latency:
        chains *= 2
    return chains


def entry_cycles(places: int, vectors: int, cpu: Cpu) -> float:
    """Return the cycles that a tile takes for one entry of its list."""
    sums = places * vectors
    independent = sums * chains_of(places, vectors, cpu)
    latency = cpu.multiply_add_latency * sums / independent if independent else 0
    loads = (places + vectors + 1) / cpu.loads_a_cycle
    return max(sums / cpu.multiply_adds, loads, latency)


def column_choices(product: Product, cpu: Cpu) -> list[int]:
    """Return how many columns a tile may have."""
    return list(range(1, min(product.columns, most_places(product.vectors, cpu)) + 1))


def row_choices(product: Product, cpu: Cpu) -> list[int]:
    """Return how many rows a tile may have."""
    return list(range(1, min(product.rows, most_places(product.vectors, cpu)) + 1))


def best_tile(product: Product, cpu: Cpu) -> tuple[int, int]:
    """Return rows and columns of the tile that takes the fewest cycles an entry and a result."""
    most = most_places(product.vectors, cpu)

    def cost(tile: tuple[int, int]) -> tuple[float, int]:
        rows, columns = tile
        tiles = math.ceil(product.rows / rows) * math.ceil(product.columns / columns)
        # The wider tile where two take the same.
        return tiles * entry_cycles(rows * columns, product.vectors, cpu), -columns

    tiles = [
        (rows, columns)
        for rows in row_choices(product, cpu)
        for columns in column_choices(product, cpu)
        if rows * columns <= most
    ]
    return min(tiles, key=cost)


def task_row_choices(product: Product, cpu: Cpu) -> list[int]:
    """Return how many rows a task may have."""
    return row_pieces(product.rows, cpu)


def task_column_choices(product: Product, cpu: Cpu) -> list[int]:
    """Return how many columns a task may have: all of a row, where it is gathered."""
    return row_pieces(product.columns, cpu) if product.is_in_place else [product.columns]


def group_part_choices(product: Product, cpu: Cpu) -> list[int]:
    """Return how many tasks may share the groups."""
    most = cpu.cores * MOST_TASKS_A_CORE
    return [each for each in range(1, most + 1) if product.groups % each == 0]


def row_pieces(extent: int, cpu: Cpu) -> list[int]:
    """Return of how many rows, or columns, pieces of an axis may be."""
    few = range(1, cpu.cores * MOST_TASKS_A_CORE + 1)
    many = (few[-1] << step for step in range(1, extent.bit_length()))
    return sorted({math.ceil(extent / parts) for parts in (*few, *many)})


def best_tiling(product: Product, cpu: Cpu) -> Tiling:
    """Return the tiling that is estimated to be the fastest."""
    return min(_tilings(product, cpu), key=lambda tiling: cycles(product, tiling, cpu))


def _tilings(product: Product, cpu: Cpu) -> Iterator[Tiling]:
    tiles = {(best_tile(product, cpu), False)}
    for columns in _turned_columns(product, cpu):
        tiles.add(((1, columns), True))
    outer = (task_row_choices(product, cpu), task_column_choices(product, cpu))
    for ((rows, columns), is_turned), task_rows, task_columns, parts, outermost in product_of(
        sorted(tiles), *outer, group_part_choices(product, cpu), (False, True)
    ):
        if is_turned and columns > task_columns:
            continue
        rows, columns = min(rows, task_rows), min(columns, task_columns)
        chains = chains_of(rows * columns, product.vectors, cpu)
        yield Tiling(rows, columns, chains, task_rows, task_columns, parts, outermost, is_turned)


def _turned_columns(product: Product, cpu: Cpu) -> list[int]:
    """Return how many places a tile may have whose data is turned: those with few steps."""
    if not product.can_turn:
        return []
    choices = column_choices(product, cpu)
    return [each for each in choices if each > 1 and max(prime_factors(each)) <= MOST_ROWS_AT_ONCE]


def turning_cycles(product: Product, places: int) -> float:
    """Return the cycles that turning one tile takes: a shuffle for each row put to another."""
    steps = sum(prime - 1 for prime in prime_factors(places))
    vectors = product.depth / product.turned_lanes * places
    return vectors * (steps + CYCLES_TO_MOVE_A_VECTOR)


def gathering_cycles(product: Product, rows: int, cpu: Cpu) -> float:
    """Return the cycles in which a task gathers so many rows of windows, from the last cache."""
    gathered = product.gathered(rows) * FLOAT_BYTES
    # What the second-level cache cannot hold is written behind it, and read from there.
    passes = 1 if gathered <= cpu.l2_for_kernel_bytes else PASSES_UNCACHED
    return passes * gathered / cpu.llc_bytes_a_cycle


def cycles(product: Product, tiling: Tiling, cpu: Cpu) -> float:
    """Return the estimated cycles of a product until the last core has ended."""
    pieces = math.ceil(product.rows / tiling.task_rows) * math.ceil(
        product.columns / tiling.task_columns
    )
    tasks = product.images * pieces * tiling.group_parts
    tiles = math.ceil(tiling.task_rows / tiling.rows) * math.ceil(
        tiling.task_columns / tiling.columns
    )
    entries, groups = product.entries / tiling.group_parts, product.groups / tiling.group_parts
    sums = tiling.places * product.vectors
    computed = tiles * (
        entries * entry_cycles(tiling.places, product.vectors, cpu)
        + groups * (CYCLES_A_LIST + CYCLES_A_SUM * sums / cpu.loads_a_cycle)
    )
    one = max(computed, _streaming_cycles(product, tiling, tiles, cpu))
    one += gathering_cycles(product, tiling.task_rows, cpu)
    if tiling.is_turned:
        one += tiles * turning_cycles(product, tiling.columns)
    return math.ceil(tasks / cpu.cores) * (one + TASK_CYCLES)


def _streaming_cycles(product: Product, tiling: Tiling, tiles: int, cpu: Cpu) -> float:
    """Return the cycles that a task waits for caches behind the first: values, and data."""
    values = product.value_bytes / tiling.group_parts
    groups = max(1.0, product.groups / tiling.group_parts)
    held = _tile_bytes(product, tiling)
    # Of the data, what one list touches: a line for each place, or the lines of a turned column.
    a_list = product.entries / product.groups
    touched = min(held, a_list * _lines(product, tiling) * LINE_BYTES)
    room = cpu.l1_bytes / L1_SHARE
    if tiling.group_outermost:
        data, kept = (0.0 if held * tiles <= room else touched * groups * tiles), held * tiles
        again = values if values / groups <= room else values * tiles
    else:
        data, kept = (0.0 if held <= room else touched * groups * tiles), held
        again = values if values <= room else values * tiles
    if product.is_in_place and not tiling.is_turned and _share_sets(product, tiling):
        data = max(data, touched * groups * tiles)
    return data / _bytes_a_cycle(kept, cpu) + again / _bytes_a_cycle(values, cpu)


def _lines(product: Product, tiling: Tiling) -> int:
    """Return the lines of the data that one entry touches."""
    if tiling.is_turned:
        return math.ceil(tiling.columns * FLOAT_BYTES / LINE_BYTES)
    a_row = (tiling.columns - 1) * product.pixel_step * FLOAT_BYTES / LINE_BYTES
    return tiling.rows * min(tiling.columns, math.ceil(a_row) + 1)


def _tile_bytes(product: Product, tiling: Tiling) -> float:
    """Return the bytes of the data that a tile's lists choose from."""
    if product.is_in_place:
        return float(product.depth * tiling.columns * FLOAT_BYTES)
    row = product.row_elements / product.columns
    rows = tiling.rows * product.move + product.rows_shared
    return row * tiling.columns * rows * FLOAT_BYTES


def _share_sets(product: Product, tiling: Tiling) -> bool:
    """Tell whether places lie so far apart that few of them fit the first-level cache."""
    apart = product.pixel_step * FLOAT_BYTES
    return tiling.columns > WAYS and apart % (WAY_BYTES // 2) == 0


def _bytes_a_cycle(size: float, cpu: Cpu) -> float:
    """Return what a core streams from the cache that holds so much."""
    return cpu.l2_bytes_a_cycle if size <= cpu.l2_for_kernel_bytes else cpu.llc_bytes_a_cycle
