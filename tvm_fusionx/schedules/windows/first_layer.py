"""The first convolution of a net: a few channels of an image, read in place.

The image is not copied to be padded, as :mod:`tvm_fusionx.schedules.windows.dense` does: with so
few channels the copy would cost a large part of the products. The loops are laid out by hand in
:mod:`tvm_fusionx.schedules.windows.in_place_kernel`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.parts import lane_tiles
from tvm_fusionx.schedules.parts.lanes import lanes_multiplied
from tvm_fusionx.schedules.parts.register_tile import SPARE_REGISTERS
from tvm_fusionx.schedules.template import (
    Knob,
    Knobs,
    KnobValues,
    Match,
    Template,
)
from tvm_fusionx.schedules.windows.in_place_kernel import read_in_place
from tvm_fusionx.schedules.windows.result import runs_of_pixels
from tvm_fusionx.schedules.windows.structure import (
    PaddedWindow,
    Window,
    find_padded_window,
)
from tvm_fusionx.schedules.windows.tiling import (
    MAX_TILE_CHUNKS,
    ChunkTile,
    even_rows,
    inputs_held,
    streaming_cost,
    tile_cost,
)
from tvm_fusionx.tir.block import BlockInfo
from tvm_fusionx.tir.half_terms import NOT_IN_HALVES, half_terms
from tvm_fusionx.tir.numbers import divisors

KERNEL = "first_layer"

# With more channels of one-channel chunks the copy pays: their rows lie far apart.
MOST_IMAGE_CHANNELS = 4

# Cycles of one store of a run of pixels. Planes lie whole pages apart as often as not, and are more
# than a set of the first-level cache has ways, so that each store waits for its line. S3D's first
# layer, 64 planes of 112 x 112 a frame, ms on Zen 5: tiles of 2 chunks by 6 columns, which are
# stored by 4 and by 2, 12.4; 2 by 4 9.5; 1 by 8 9.0: so many cycles, beside the products, rank them
# so.
PLANE_STORE_CYCLES = 16


def find_image_window(info: BlockInfo) -> PaddedWindow | str:
    """Return the block's only window, if it moves over an image, or why it does not."""
    found = find_padded_window(info)
    if isinstance(found, str):
        return found
    window = found.window
    if window.block_in != 1 or int(window.data.shape[1]) > MOST_IMAGE_CHANNELS:
        return f"its data is no image of at most {MOST_IMAGE_CHANNELS} channels"
    return found


def image_tiles(window: Window, cpu: Cpu, *, in_planes: bool = False) -> list[tuple[int, int]]:
    """Return (chunks, columns) of tiles that the registers hold, the best first.

    Results in planes take a store for each channel and run of columns.

    With sums and weights they hold all inputs that taps share. Where so few sums are left that they
    wait for one another, as in the 16 registers of AVX2, inputs are read again for each tap.

    Windows that do not meet, patches, share nothing: their tiles are judged as those of any other
    convolution, with the way of their many weights.
    """

    def fitting(held: Callable[[int], int]) -> list[tuple[int, int]]:
        registers = window.registers(cpu)
        return [
            (chunks, columns)
            for chunks in divisors(window.out_blocks)
            if chunks <= MAX_TILE_CHUNKS
            # A row may have thousands of columns.
            for columns in range(1, min(window.columns, registers // chunks) + 1)
            if chunks * columns + chunks + held(columns) < registers
        ]

    tiles = fitting(lambda columns: _inputs_held(window, columns, cpu))
    is_shared = any(chunks * columns >= cpu.sums_to_hide_latency for chunks, columns in tiles)
    if not is_shared:
        tiles = fitting(lambda columns: SPARE_REGISTERS)

    def cost(tile: tuple[int, int]) -> float:
        chunks, columns = tile
        if window.stride[1] >= window.columns_read(1):
            registers = ChunkTile(chunks, columns)
            return tile_cost(registers, window, cpu) * streaming_cost(registers, window, cpu)
        waste = math.ceil(window.columns / columns) * columns / window.columns
        latency = max(1.0, cpu.sums_to_hide_latency / (chunks * columns))
        inputs = columns * window.kernel[1]
        if is_shared:
            inputs = math.ceil(window.columns_read(columns) / lanes_multiplied(cpu))
        read = chunks * window.kernel[1] + inputs
        products = latency * (1 + read / (chunks * columns * window.kernel[1]))
        if in_planes:
            taps = window.in_channels * window.kernel[0] * window.kernel[1]
            stores = (
                window.block_out
                * len(runs_of_pixels(columns, window.block_out))
                * PLANE_STORE_CYCLES
            )
            products += stores * cpu.multiply_adds / (columns * taps)
        return waste * products

    return sorted(tiles, key=cost) or [(1, 1)]


def _inputs_held(window: Window, columns: int, cpu: Cpu) -> int:
    """Return the registers that hold inputs of a tile: a few in each where lanes are multiplied."""
    if not cpu.multiplies_by_lane:
        return inputs_held(window, columns)
    return math.ceil(window.columns_read(columns) / cpu.lanes) + lane_tiles.FREE_REGISTERS


def _is_in_planes(info: BlockInfo, window: Window) -> bool:
    """Tell whether the block's result has the window's rows and columns as its last axes."""
    (written,) = info.stages[info.outputs[0]].writes
    shape = [int(extent) for extent in written.shape]
    return shape[-2:] == [window.rows, window.columns] != [window.columns, window.block_out]


@dataclass(frozen=True)
class FirstLayer(Match):
    """A block around a window over a few channels of an image."""

    found: PaddedWindow
    half_terms: int = 0
    """Most terms of a sum of halves; 0 for sums of float32 alone."""

    def knobs(self) -> Knobs:
        """Return the rows of a task and the register tile."""
        window, cpu = self.found.window, self.info.cpu
        tiles = image_tiles(window, cpu, in_planes=_is_in_planes(self.info, window))
        return {
            "task_rows": Knob(even_rows(window, cpu), tuple(range(1, window.rows + 1))),
            "tile_chunks": Knob(tiles[0][0], tuple(sorted({chunks for chunks, _ in tiles}))),
            "tile_columns": Knob(tiles[0][1], tuple(sorted({columns for _, columns in tiles}))),
        }

    def emit(self, values: KnobValues) -> Any:
        """Return the kernel."""
        chunks, columns = values["tile_chunks"], values["tile_columns"]
        rows, terms = values["task_rows"], self.half_terms
        return read_in_place(self.info, self.found, KERNEL, chunks, columns, rows, half_terms=terms)


def _match(info: BlockInfo) -> FirstLayer | str:
    found = find_image_window(info)
    return found if isinstance(found, str) else FirstLayer(info, found)


def _match_in_halves(info: BlockInfo) -> FirstLayer | str:
    found = find_image_window(info)
    if isinstance(found, str):
        return found
    window = found.window
    terms = half_terms(info.func, found.data, window.weights)
    if terms < window.kernel[1]:
        return NOT_IN_HALVES
    if window.block_out != info.cpu.lanes:
        return "its chunks are no vectors of halves"
    return FirstLayer(info, found, terms)


FIRST_LAYER = Template("first_layer", _match)
FIRST_LAYER_IN_HALVES = Template(FIRST_LAYER.name, _match_in_halves)
