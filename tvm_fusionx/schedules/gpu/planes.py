"""Data put in planes by a kernel in front: of each channel, what neighbours read in a row.

A list takes a few channels of each place. In chunks of channels those are far apart for
neighbouring work-items; in planes they are neighbours, and the places of a tile are one load. The
zeros of a window's padding lie among them, so that no window tests whether it is inside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.expressions.sparse_products import FLOAT, Geometry
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.threads import bind_shares, points_of, work_items
from tvm_fusionx.tir.block import loads_of

COPY = "planes"

AXES = ("image", "row", "chunk", "column", "lane")


@dataclass(frozen=True)
class Planes:
    """What is put in planes, ``[images, rows * channels * positions]``."""

    extents: tuple[int, int, int, int, int]
    """Images, rows, chunks, columns, and channels of a chunk."""
    positions: int
    """Elements of a channel of a row."""
    number: Callable[..., Any]
    """Returns the number of an image, row, chunk, column and lane."""
    position: Callable[[Any], Any] = lambda column: column
    """Returns where a column lies in its channel."""

    @property
    def shape(self) -> tuple[int, int]:
        """Of the buffer."""
        images, rows, chunks, _, lanes = self.extents
        return images, rows * chunks * lanes * self.positions

    def nest(self, held: Any) -> Any:
        """Return the loops that fill buffer `held`."""
        _, _, chunks, _, lanes = self.extents
        inner = [tir.Var(name, "int32") for name in AXES]
        image, row, chunk, column, lane = inner
        channel = row * (chunks * lanes) + chunk * lanes + lane
        value = self.number(*inner)
        at = [image, channel * self.positions + self.position(column)]
        read = {load.buffer.data: load.buffer for load in loads_of(value)}
        block = tir.Block(
            [
                tir.IterVar((0, extent), var, tir.IterVar.DataPar)
                for var, extent in zip(inner, self.extents, strict=True)
            ],
            [_whole(buffer) for buffer in read.values()],
            [_whole(held)],
            COPY,
            tir.BufferStore(held, value, at),
        )
        outer = [tir.Var(name, "int32") for name in AXES]
        body = tir.BlockRealize(outer, tir.const(True, "bool"), block)
        for var, extent in reversed(list(zip(outer, self.extents, strict=True))):
            body = tir.For(var, 0, extent, tir.ForKind.SERIAL, body)
        return body


def planes_of_rows(element: Callable[..., Any], rows: int, length: int, lanes: int) -> Planes:
    """Return the planes of a matrix ``[rows, length]``: its columns."""
    wide = lanes if length % lanes == 0 else 1

    def number(image: Any, row: Any, chunk: Any, column: Any, lane: Any) -> Any:
        return element(column, chunk * wide + lane)

    return Planes((1, 1, length // wide, rows, wide), rows, number)


def planes_of_pixels(element: Callable[..., Any], images: int, geometry: Geometry) -> Planes:
    """Return the planes of images whose windows are single pixels."""
    width, pixels = geometry.width, geometry.height * geometry.width

    def number(image: Any, row: Any, chunk: Any, column: Any, lane: Any) -> Any:
        return element(image, chunk, column // width, column % width, lane)

    return Planes((images, 1, geometry.chunks, pixels, geometry.lanes), pixels, number)


def planes_of_windows(element: Callable[..., Any], images: int, geometry: Geometry) -> Planes:
    """Return the planes of images that windows read, zeros around them."""
    rows = geometry.gathered(geometry.result[0], 0)
    top, left = geometry.padding[:2]

    def number(image: Any, row: Any, chunk: Any, column: Any, lane: Any) -> Any:
        h, w = row * geometry.steps[0] - top, column * geometry.steps[1] - left
        value = element(image, chunk, h, w, lane)
        inside = tir.all(h >= 0, h < geometry.height, w >= 0, w < geometry.width)
        return tir.if_then_else(inside, value, tir.const(0, FLOAT))

    extents = (images, rows, geometry.chunks, geometry.columns, geometry.lanes)
    return Planes(extents, geometry.positions, number, geometry.position)


def bind_copy(sch: Any, gpu: Gpu) -> None:
    """Give the loops of the copy to work-items, each with the channels of a chunk."""
    *places, lane = sch.get_loops(sch.get_block(COPY))
    bind_shares(sch, places, work_items(gpu, points_of(sch, places)))
    sch.unroll(lane)


def _whole(buffer: Any) -> Any:
    return tir.BufferRegion(buffer, [tvm.ir.Range(0, extent) for extent in buffer.shape])
