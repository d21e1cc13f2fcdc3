"""How a sparse product is divided, and what it costs: counted from the processor's row.

A tile is some results of neighbouring places for the channels of one group: its sums stay in
registers while the group's list is read once. An entry of the list costs its offset, its vectors of
weights, an element of each place of the tile, and a multiply-add for each place and vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.sparse.lists import Lists

# Sums of one place that take turns.
MOST_CHAINS = 4

# Pieces of the result that each core gets, where there are enough.
MOST_TASKS_A_CORE = 4

# Instructions to begin and end a tile's list, besides those for each sum; of each sum: set to zero,
# what follows, stored.
CYCLES_A_LIST = 12
CYCLES_A_SUM = 2

# Elements that gathering moves in a cycle, of the vector's lanes: it loads, tests and stores.
GATHERED_SHARE = 0.5

# Part of the first-level cache that what stays may fill.
L1_SHARE = 2


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

    @property
    def is_in_place(self) -> bool:
        """Whether the data is read as it lies."""
        return self.row_elements == 0

    @property
    def value_bytes(self) -> int:
        """Of the weights that are stored."""
        return self.entries * self.vectors * self.lanes * FLOAT_BYTES

    def gathered(self, rows: int) -> int:
        """Return the elements that a task of so many rows gathers."""
        return (rows * self.move + self.rows_shared) * self.row_elements

    def with_lists(self, lists: Lists) -> Product:
        """Return the same product with other lists, in vectors of as many lanes."""
        vectors = lists.width // self.lanes
        return Product(
            **{
                **self.__dict__,
                "groups": lists.groups,
                "entries": lists.entries,
                "vectors": vectors,
            }
        )


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
    return _pieces(product.rows, cpu)


def task_column_choices(product: Product, cpu: Cpu) -> list[int]:
    """Return how many columns a task may have: all of a row, where it is gathered."""
    return _pieces(product.columns, cpu) if product.is_in_place else [product.columns]


def group_part_choices(product: Product, cpu: Cpu) -> list[int]:
    """Return how many tasks may share the groups."""
    most = cpu.cores * MOST_TASKS_A_CORE
    return [each for each in range(1, most + 1) if product.groups % each == 0]


def _pieces(extent: int, cpu: Cpu) -> list[int]:
    most = cpu.cores * MOST_TASKS_A_CORE
    return sorted({math.ceil(extent / parts) for parts in range(1, most + 1)})


def best_tiling(product: Product, cpu: Cpu) -> Tiling:
    """Return the tiling that is estimated to be the fastest."""
    return min(_tilings(product, cpu), key=lambda tiling: cycles(product, tiling, cpu))


def _tilings(product: Product, cpu: Cpu) -> Iterator[Tiling]:
    rows, columns = best_tile(product, cpu)
    chains = chains_of(rows * columns, product.vectors, cpu)
    for task_rows in task_row_choices(product, cpu):
        for task_columns in task_column_choices(product, cpu):
            for parts in group_part_choices(product, cpu):
                for outermost in (False, True):
                    yield Tiling(
                        min(rows, task_rows),
                        min(columns, task_columns),
                        chains,
                        task_rows,
                        task_columns,
                        parts,
                        outermost,
                    )


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
    gathered = product.gathered(tiling.task_rows)
    computed = tiles * (
        entries * entry_cycles(tiling.places, product.vectors, cpu)
        + groups * (CYCLES_A_LIST + CYCLES_A_SUM * sums / cpu.loads_a_cycle)
    )
    one = max(computed, _streamed(product, tiling, tiles, cpu) / cpu.l2_bytes_a_cycle)
    one += gathered / (GATHERED_SHARE * cpu.lanes)
    fetched = product.value_bytes / tiling.group_parts / cpu.llc_bytes_a_cycle
    return math.ceil(tasks / cpu.cores) * max(one, fetched) + TASK_CYCLES * tasks / cpu.cores


# Starting a task: pointers, loop set-up, the first misses.
TASK_CYCLES = 500


def _streamed(product: Product, tiling: Tiling, tiles: int, cpu: Cpu) -> float:
    """Return the bytes that a task reads from the second-level cache, over and over."""
    values = product.value_bytes / tiling.group_parts
    groups = product.groups / tiling.group_parts
    if product.is_in_place:
        data = tiling.task_columns * product.depth * FLOAT_BYTES
    else:
        data = product.gathered(tiling.task_rows) * FLOAT_BYTES
    room = cpu.l1_bytes / L1_SHARE
    if tiling.group_outermost:
        again = 0.0 if values / groups <= room else values * tiles
        return again + (data if data <= room else data * groups)
    again = 0.0 if data / tiles <= room else data * groups
    return again + (values if values <= room else values * tiles)
