"""The operator of windows whose filters leave zeros out one by one: vectors lie along pixels.

Each filter has its own kernels, so nothing is asked of neighbouring channels. What is read is put
in planes, channel by channel, so that the pixels of all rows of a piece are one run: a number of
the weight is one distance for all of them. Between rows lie a few places that are computed for
nothing. A weight is stored kernel by kernel, sorted by pattern: the taps of a pattern are known
when the kernel is written, and a kernel is one word and as many numbers as its pattern has. Without
patterns each number is a kernel of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tvm import te, tir
from tvm.relay.op.op import OpPattern

from tvm_fusionx._tvm.registry import register_operator
from tvm_fusionx.expressions.sparse_products import (
    CONV2D_ATTRIBUTES,
    FLOAT,
    Geometry,
    window_type,
)

FILTERS = "fusionx.sparse_filters_NCHWc"

# What the stage is called, and the annotation that carries planes and patterns.
FILTER_STAGE = "sparse_filters"
PLANES_OF_FILTERS = "fusionx.sparse_filters"

# Numbers of a geometry: kernel, strides, dilation, padding.
GEOMETRY_NUMBERS = 10

# Planes that lie a multiple of so many floats apart share sets of a cache: a gap parts them.
SHARING, GAP = 512, 16

_OPERANDS = {"data": "What is multiplied.", "values": "Of each kernel.", "index": "Of kernels."}


@dataclass(frozen=True)
class FilterPlanes:
    """The planes that a piece of the result reads, and the patterns of its filters."""

    geometry: Geometry
    rows: int
    """Of a piece of the result."""
    patterns: tuple[tuple[int, ...], ...] = ()
    """Of each its taps, places of the window in order, as many for all; none where each number is
    a kernel of its own."""

    @property
    def part_rows(self) -> int:
        """Rows of a part: of planes, those that windows step on are apart from those between."""
        return math.ceil(self.geometry.gathered(self.rows, 0) / self.geometry.moves[0])

    @property
    def pitch(self) -> int:
        """Places from a row of a part, or of the result, to the next."""
        return math.ceil(self.geometry.columns / self.geometry.moves[1])

    @property
    def part(self) -> int:
        """Places of a part."""
        return self.part_rows * self.pitch

    @property
    def plane(self) -> int:
        """Places from a plane to the next."""
        size = math.prod(self.geometry.moves) * self.part
        return size + GAP if size % SHARING == 0 else size

    @property
    def positions(self) -> int:
        """Places of a piece of the result, those between rows counted."""
        return (self.rows - 1) * self.pitch + self.geometry.result[1]

    @property
    def pattern_count(self) -> int:
        """How many there are; one where each number is a kernel of its own."""
        return max(1, len(self.patterns))

    @property
    def taps(self) -> int:
        """Numbers of a kernel."""
        return len(self.patterns[0]) if self.patterns else 1

    @property
    def bits(self) -> int:
        """Of a kernel's word, those that tell its pattern; the others tell where it reads."""
        return (self.pattern_count - 1).bit_length()

    def distance(self, tap: int) -> int:
        """Return how far behind a place of the result a place of the window lies, in its plane."""
        row, column = divmod(tap, self.geometry.kernel[1])
        row, column = row * self.geometry.dilation[0], column * self.geometry.dilation[1]
        down, across = self.geometry.moves
        part = row % down * across + column % across
        return part * self.part + row // down * self.pitch + column // across

    def distances(self) -> list[list[int]]:
        """Return those of the taps of each pattern, counted from where a kernel reads."""
        if not self.patterns:
            return [[0]]
        return [[self.distance(tap) for tap in pattern] for pattern in self.patterns]

    def place(self, distance: Any) -> tuple[Any, Any, Any]:
        """Return channel, row and column of a distance, in the gathered image."""
        down, across = self.geometry.moves
        channel, rest = distance // self.plane, distance % self.plane
        part, inner = rest // self.part, rest % self.part
        row = inner // self.pitch * down + part // across
        return channel, row, inner % self.pitch * across + part % across

    @property
    def numbers(self) -> list[int]:
        """All that is not in the shape of the data."""
        taps = chain.from_iterable(self.patterns)
        return [*self.geometry.numbers, self.rows, len(self.patterns), *taps]

    @classmethod
    def of(cls, shape: Sequence[Any], numbers: Sequence[Any]) -> FilterPlanes:
        """Return those of a stage, from the shape of its data and its :attr:`numbers`."""
        told = [int(each) for each in numbers]
        rows, count, *taps = told[GEOMETRY_NUMBERS:]
        size = len(taps) // max(1, count)
        patterns = tuple(tuple(taps[at * size : (at + 1) * size]) for at in range(count))
        return cls(Geometry.of(shape, told[:GEOMETRY_NUMBERS]), rows, patterns)

    @property
    def text(self) -> str:
        """What stands in the place of a weight's layout: rows, and taps of each pattern."""
        return "/".join([str(self.rows), *(",".join(map(str, each)) for each in self.patterns)])


@dataclass(frozen=True)
class FilterIndex:
    """Where the parts of an index begin: kernels of filters, chunks, distances, words."""

    filters: int
    chunks: int
    patterns: int
    taps: int

    @property
    def chunks_at(self) -> int:
        """Of the chunks of filters, in the order in which tasks take them."""
        return self.filters * self.patterns + 1

    @property
    def distances_at(self) -> int:
        """Of the distances of each pattern's taps."""
        return self.chunks_at + self.chunks

    @property
    def words_at(self) -> int:
        """Of the words of kernels."""
        return self.distances_at + self.patterns * self.taps


def planes_of(shape: Sequence[Any], attrs: Any) -> FilterPlanes:
    """Return the planes of a call, from the shape of its data and its attributes."""
    told = [*attrs.kernel_size, *attrs.strides, *attrs.dilation, *attrs.padding]
    rows, *patterns = str(attrs.kernel_layout).split("/")
    taps = tuple(tuple(map(int, each.split(","))) for each in patterns)
    return FilterPlanes(Geometry.of(shape, told), int(rows), taps)


def register_sparse_filters() -> None:
    """Make the operator known to Relay; idempotent."""
    register_operator(
        FILTERS,
        _OPERANDS,
        _compute,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        type_relation=window_type,
        attributes=CONV2D_ATTRIBUTES,
    )


def _compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    """Return the products as a sum over all kernels that takes those of its filter."""
    data, values, index = inputs
    planes = planes_of(data.shape, attrs)
    geometry = planes.geometry
    _, chunks, _, _, block = (int(each) for each in out_type.shape)
    parts = FilterIndex(chunks * block, chunks, planes.pattern_count, planes.taps)
    kernel = te.reduce_axis((0, int(values.shape[0])), name="kernel")
    tap = te.reduce_axis((0, planes.taps), name="tap")

    def total(n: Any, o: Any, y: Any, x: Any, lane: Any) -> Any:
        first = (o * block + lane) * parts.patterns
        inside = tir.all(kernel >= index[first], kernel < index[first + parts.patterns])
        word = index[parts.words_at + kernel]
        pattern = tir.bitwise_and(word, tir.const((1 << planes.bits) - 1, "int32"))
        distance = index[parts.distances_at + pattern * planes.taps + tap] + tir.shift_right(
            word, tir.const(planes.bits, "int32")
        )
        channel, row, column = planes.place(distance)
        h = (y * geometry.moves[0] + row) * geometry.steps[0] - geometry.padding[0]
        w = (x * geometry.moves[1] + column) * geometry.steps[1] - geometry.padding[1]
        is_there = tir.all(inside, h >= 0, h < geometry.height, w >= 0, w < geometry.width)
        number = data[n, channel // geometry.lanes, h, w, channel % geometry.lanes]
        product = values[kernel, tap] * number
        return te.sum(tir.if_then_else(is_there, product, tir.const(0, FLOAT)), axis=[kernel, tap])

    return [
        te.compute(
            tuple(out_type.shape),
            total,
            name=FILTER_STAGE,
            attrs={PLANES_OF_FILTERS: planes.numbers},
        )
    ]
