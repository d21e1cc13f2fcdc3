"""The image that windows read, with its padding, channels innermost."""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.reuse.layer import ReuseLayer
from tvm_fusionx.schedules.parts.tasks import tasks
from tvm_fusionx.schedules.parts.vectors import each_lane, load

FLOAT, INT = "float32", "int32"

# Lanes of a vector that TVM copies at once; more are a loop.
MOST_LANES = 16


class PaddedImage:
    """Emits what makes the image, and what reads it.

    Parameters
    ----------
    ib
        Builder of the kernel.
    layer
        Whose image it is.
    data
        The operand's buffer, ``[N, C / c, H, W, c]``; read where it lies if it is the image.
    """

    def __init__(self, ib: Any, layer: ReuseLayer, data: Any) -> None:
        self.ib, self.layer, self.data = ib, layer, data
        self.held: Any = None
        self.starts: Any = None

    @property
    def _images(self) -> int:
        return self.layer.images // self.layer.groups

    def allocate(self) -> None:
        """Make the buffers, and compute where the window of each row begins."""
        layer, ib = self.layer, self.ib
        height, width = layer.padded
        if not layer.is_in_place:
            size = self._images * height * width * layer.depth
            self.held = ib.allocate(FLOAT, (size,), "image")._buffer
        self.starts = ib.allocate(INT, (layer.rows,), "starts")._buffer
        columns = layer.result[1]
        with ib.for_range(0, layer.rows, "row") as row:
            image, pixel = tir.floordiv(row, layer.pixels), tir.floormod(row, layer.pixels)
            y, x = tir.floordiv(pixel, columns), tir.floormod(pixel, columns)
            line = image * height + y * layer.strides[0]
            start = (line * width + x * layer.strides[1]) * layer.depth
            ib.emit(tir.BufferStore(self.starts, start, [row]))

    def start(self, row: Any) -> Any:
        """Return where the window of a row begins."""
        return load(self.starts, row, 1)

    def element(self, group: Any, place: Any) -> Any:
        """Return a number of the image of a group."""
        if self.held is not None:
            return load(self.held, place, 1)
        zero = tir.const(0, INT)
        image = zero if self.layer.per_batch else group
        return tir.BufferLoad(self.data, [image, zero, zero, zero, place])

    def fill(self, group: Any, *, parallel: bool) -> None:
        """Put the images of a group into the buffer."""
        if self.held is None:
            return
        layer, ib = self.layer, self.ib
        height, width = layer.padded
        top, left, _, right = layer.padding
        with tasks(ib, [self._images, height], parallel=parallel) as (image, row):
            line = (image * height + row) * width * layer.depth
            inside = tir.all(row >= top, row < top + layer.height)
            with ib.if_scope(inside):
                self._zero(line, left * layer.depth)
                self._zero(line + (left + layer.width) * layer.depth, right * layer.depth)
                source = image if layer.per_batch else group
                with (
                    ib.for_range(0, layer.chunks, "chunk") as chunk,
                    ib.for_range(0, layer.width, "column") as column,
                ):
                    target = line + (left + column) * layer.depth + chunk * layer.lanes
                    self._copy(target, [source, chunk, row - top, column])
            with ib.else_scope():
                self._zero(line, width * layer.depth)

    def _zero(self, start: Any, count: int) -> None:
        if count:
            with self.ib.for_range(0, count, "zero") as at:
                self.ib.emit(tir.BufferStore(self.held, tir.const(0.0, FLOAT), [start + at]))

    def _copy(self, target: Any, place: list[Any]) -> None:
        """Copy the channels of a chunk of one pixel."""
        lanes = self.layer.lanes

        def one(lane: Any) -> Any:
            value = tir.BufferLoad(self.data, [*place, lane])
            return tir.BufferStore(self.held, value, [target + lane])

        is_vector = lanes <= MOST_LANES and lanes & (lanes - 1) == 0
        self.ib.emit(
            each_lane(lanes, one, tir.ForKind.VECTORIZED if is_vector else tir.ForKind.SERIAL)
        )
