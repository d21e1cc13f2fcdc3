"""A padded window that keeps channels apart, read in place: the image is not copied to be padded.

Which columns of a tile lie in the border is known when the kernel is written, and rows are cut by
the bounds of the loop over the window's rows (:mod:`tvm_fusionx.schedules.windows.border_tiles`).
Loop order, outermost first: tasks (image, part of the rows, part of the channels, in parallel);
channel chunks of a tile; row; columns of a tile; window rows; window columns, written out; then
what follows on the registers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.parts.hand_written_kernel import (
    Store,
    gather_what_follows,
    replace_stages,
    schedule_around,
    stage_nests,
    storing,
)
from tvm_fusionx.schedules.parts.parallelism import should_parallelise
from tvm_fusionx.schedules.parts.vector_sums import VectorSums, ramp
from tvm_fusionx.schedules.template import KnobValues
from tvm_fusionx.schedules.windows.border_tiles import WindowTiles
from tvm_fusionx.schedules.windows.structure import Window, padded_by
from tvm_fusionx.tir.block import BFLOAT16, BlockInfo
from tvm_fusionx.tir.indices import simplify_indices

KERNEL = "channelwise_window"

# What a window does with the elements under it, besides summing their products with weights.
_COMBINERS = (tir.Add, tir.Max, tir.Min)


@dataclass(frozen=True)
class PaddedWindow:
    """A window that keeps channels apart, over data that is only padded before it."""

    window: Window
    data: Any
    """The buffer ``[N, C / c, H, W, c]``, before it is padded."""
    padding: tuple[int, int]
    """Rows above the data, columns to its left."""
    pad: str
    """Name of the stage that pads."""


def find_padded(info: BlockInfo, window: Window) -> PaddedWindow | str:
    """Return `window` over the data before its padding, or why that changes its result."""
    if window.dtype == BFLOAT16:
        return "bfloat16 is computed by casts"
    before = info.upstream(window.stage.name)
    if len(before) != 1:
        return f"{len(before)} stages are before it, not a padding alone"
    (pad,) = before
    if not info.stages[pad].writes[0].data.same_as(window.data.data):
        return "what is before it is not its data"
    padded = padded_by(info.stages[pad].block)
    if padded is None:
        return "what is before it is no padding"
    block = window.stage.block
    if not isinstance(block.init, tir.BufferStore) or not isinstance(block.body.value, _COMBINERS):
        return "it does not combine element by element"
    if not window.stage.is_dot and not isinstance(block.body.value.b, tir.BufferLoad):
        return "it computes something of each element"
    data, padding, value = padded
    # What the border adds has to be what the window starts with.
    initial = block.init.value
    if not isinstance(initial, tir.FloatImm) or float(initial.value) != value:
        return "its padding changes the result"
    return PaddedWindow(window, data, padding, pad)


def schedule_padded(sch: Any, info: BlockInfo, found: PaddedWindow, values: KnobValues) -> Any:
    """Return the scheduled function of a block around a padded window.

    Parameters
    ----------
    values
        ``tile_chunks``, ``tile_columns``, ``task_rows`` and ``channel_tasks``.
    """
    name = found.window.stage.name
    write = gather_what_follows(sch, info, name, info.outputs[0])
    func = simplify_indices(sch.mod["main"])
    blocks = stage_nests(func)
    written = {region.buffer.data for region in blocks[name].writes}
    parallel = should_parallelise(info.stages.values(), info.cpu.cores)
    kernel = _Kernel(found, values, storing(blocks[write], written))
    stmt = kernel.build("parallel" if parallel else "serial")
    func = replace_stages(func, [found.pad, name], write, [found.data], KERNEL, stmt)
    return schedule_around(func, KERNEL, info.cpu)


class _Kernel:
    def __init__(self, found: PaddedWindow, values: KnobValues, write: Store) -> None:
        self.found, self.values, self.write = found, values, write
        self.ib = tir.ir_builder.create()
        window = self.window = found.window
        _, _, height, width, _ = (int(extent) for extent in found.data.shape)
        self.tiles = WindowTiles(window, found.padding, height, width, values["tile_columns"])
        self.weights = next(
            (buffer for buffer in window.stage.reads if not buffer.data.same_as(window.data.data)),
            None,
        )

    def build(self, kind: str) -> Any:
        ib, window, values = self.ib, self.window, self.values
        rows, parts, chunks = (
            values[name] for name in ("task_rows", "channel_tasks", "tile_chunks")
        )
        slabs = window.rows // rows
        # Tiles of other chunks make another number of groups.
        parts = math.gcd(window.out_blocks // chunks, parts)
        groups = window.out_blocks // chunks // parts
        # Slabs of rows outermost: a core then reads the rows that it wrote in the kernel before.
        with ib.for_range(0, window.batch * slabs * parts, "task", kind=kind) as task:
            image = tir.floordiv(task, slabs * parts)
            first_row = tir.floordiv(tir.floormod(task, slabs * parts), parts) * rows
            first_group = tir.floormod(task, parts) * groups
            with (
                ib.for_range(0, groups, "group") as group,
                ib.for_range(0, rows, "row") as row,
            ):
                place = (image, (first_group + group) * chunks, first_row + row)
                self.tiles.emit(ib, lambda start: self._tile(place, start))
        return ib.get()

    def _tile(self, place: tuple[Any, Any, Any], start: Any) -> None:
        """Compute the sums of some columns of some chunks, and write them."""
        ib, tiles, window = self.ib, self.tiles, self.window
        image, first_chunk, out_row = place
        chunks, lanes = self.values["tile_chunks"], window.block_out
        block = window.stage.block
        sums = VectorSums(ib, chunks * tiles.columns, lanes, window.dtype, block.init.value)
        first, number = tiles.row_taps(out_row)
        with ib.for_range(0, number, "tap_row") as step:
            source = tiles.row(out_row, first + step)
            for tap in range(window.kernel[1]):
                for chunk in range(chunks):
                    weight = self._weight(first_chunk + chunk, first + step, tap)
                    for column in range(tiles.columns):
                        at = tiles.column(start, column, tap)
                        if tiles.is_border(at):
                            continue
                        element = tir.BufferLoad(
                            self.found.data,
                            [image, first_chunk + chunk, source, at, ramp(0, lanes)],
                        )
                        number_of_sum = chunk * tiles.columns + column
                        if weight is None:
                            sums.combine(number_of_sum, type(block.body.value), element)
                        else:
                            sums.add_product(number_of_sum, element, weight)
        for chunk in range(chunks):
            for column in range(tiles.columns):
                target = (image, first_chunk + chunk, out_row, start + column)
                sums.store(self.write, target, chunk * tiles.columns + column)

    def _weight(self, chunk: Any, tap_row: Any, tap: int) -> Any | None:
        if self.weights is None:
            return None
        return tir.BufferLoad(
            self.weights, [chunk, 0, tap_row, tap, 0, ramp(0, self.window.block_out)]
        )
