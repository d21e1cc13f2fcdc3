"""A convolution whose similar rows share products: its sizes, and how a row is cut in segments.

A convolution is a product of matrices: a row for each pixel of the result, of all numbers that its
window covers. The numbers of a row are taken row of the window by row, pixel by pixel, channel by
channel; so those of one row of the window lie side by side in an image whose channels are
innermost. Such a *run* is cut in segments of equal length, the last of which may be shorter. A
matrix is an image of one column.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.reuse.choice import FIRST, Choice

# Bits for which projections have a place: a vector of AVX-512, four of NEON.
PANEL = 16


@dataclass(frozen=True)
class Segment:
    """A part of each row."""

    offset: Any
    """Where it begins, counted from a window's first element in the padded image."""
    column: Any
    """Its first column, and row of the weights."""
    length: Any


@dataclass(frozen=True)
class ReuseLayer:
    """A convolution over an image in chunks of channels, and how its rows are put together."""

    images: int
    chunks: int
    height: int
    width: int
    lanes: int
    """Channels of a chunk of the data."""
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    padding: tuple[int, int, int, int]
    """Top, left, bottom, right."""
    channels: int
    """Of the result."""
    block: int
    """Channels of a chunk of the result."""
    length: int
    bits: int
    limit: int
    takes_mean: bool
    per_batch: bool
    has_relu: bool = False
    """Whether the results below zero are zero."""
    kept: int = 0
    """Clusters of a segment at most whose products are constants; 0 where they are found anew."""

    @property
    def depth(self) -> int:
        """Channels of the data."""
        return self.chunks * self.lanes

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and columns of the padded image."""
        top, left, bottom, right = self.padding
        return self.height + top + bottom, self.width + left + right

    @property
    def result(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        found = (
            (extent - (size - 1) * step - 1) // stride + 1
            for extent, size, step, stride in zip(
                self.padded, self.kernel, self.dilation, self.strides, strict=True
            )
        )
        return tuple(found)  # type: ignore[return-value]

    @property
    def columns(self) -> int:
        """Numbers of a row."""
        return self.kernel[0] * self.kernel[1] * self.depth

    @property
    def pixels(self) -> int:
        """Rows of an image."""
        return self.result[0] * self.result[1]

    @property
    def groups(self) -> int:
        """Parts of the batch whose rows are put together."""
        return 1 if self.per_batch else self.images

    @property
    def rows(self) -> int:
        """Rows that are put together."""
        return self.images * self.pixels // self.groups

    @property
    def clusters(self) -> int:
        """Clusters of a segment at most."""
        return self.kept or min(self.limit, 1 << self.bits, self.rows)

    @property
    def has_room(self) -> bool:
        """Whether every segment finds a cluster."""
        return not self.kept and self.clusters == min(1 << self.bits, self.rows)

    @property
    def is_in_place(self) -> bool:
        """Whether the data is the padded image already, channels innermost."""
        return self.chunks == 1 and not any(self.padding)

    @property
    def run(self) -> int:
        """Numbers of a row that lie side by side: of a row of the window, or of a pixel of it."""
        return self.depth * (self.kernel[1] if self.dilation[1] == 1 else 1)

    @property
    def pieces(self) -> int:
        """Segments of a run."""
        return math.ceil(self.run / self.length)

    @property
    def segment_count(self) -> int:
        """Segments of a row."""
        return self.columns // self.run * self.pieces

    def segment(self, number: Any) -> Segment:
        """Return a part of a row; the number, and so what is told of it, may be an expression."""
        run, start = number // self.pieces, number % self.pieces * self.length
        across = 1 if self.dilation[1] == 1 else self.kernel[1]
        down, along = run // across * self.dilation[0], run % across * self.dilation[1]
        offset = (down * self.padded[1] + along) * self.depth + start
        length = self.length
        if self.run % self.length:
            least = min if isinstance(number, int) else tir.min
            length = least(self.length, self.run - start)
        return Segment(offset, run * self.run + start, length)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The parts of a row."""
        return tuple(self.segment(number) for number in range(self.segment_count))

    @property
    def result_shape(self) -> tuple[int, int, int, int, int]:
        """Of the result: ``[N, O / o, H, W, o]``."""
        return (self.images, self.channels // self.block, *self.result, self.block)

    def text(self) -> str:
        """Return the layer as a text, of which :meth:`of_text` makes it again."""
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> ReuseLayer:
        """Return the layer that a text tells."""
        told = json.loads(text)
        pairs = {key: tuple(told[key]) for key in ("kernel", "strides", "dilation", "padding")}
        return cls(**{**told, **pairs})

    @classmethod
    def of(
        cls,
        data: Sequence[int],
        window: Sequence[Sequence[int]],
        result: tuple[int, int],
        choice: Choice,
    ) -> ReuseLayer:
        """Return the layer of a choice.

        Parameters
        ----------
        data
            Shape of the data, ``[N, C / c, H, W, c]``.
        window
            Kernel, strides, dilation and padding.
        result
            Channels of the result, and of a chunk of it.
        """
        images, chunks, height, width, lanes = map(int, data)
        kernel, strides, dilation, padding = (tuple(map(int, each)) for each in window)
        top, left, bottom, right = padding
        return cls(
            images=images,
            chunks=chunks,
            height=height,
            width=width,
            lanes=lanes,
            kernel=(kernel[0], kernel[1]),
            strides=(strides[0], strides[1]),
            dilation=(dilation[0], dilation[1]),
            padding=(top, left, bottom, right),
            channels=result[0],
            block=result[1],
            length=choice.length,
            bits=choice.bits,
            limit=choice.limit,
            takes_mean=choice.representative != FIRST,
            per_batch=choice.per_batch,
            kept=0 if choice.kept is None else choice.kept.most,
        )
