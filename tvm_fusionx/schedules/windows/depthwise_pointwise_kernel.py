"""The loops of a depthwise convolution and the pointwise one after it, laid out by hand.

It is a pointwise product whose operand is a depthwise window. One parallel loop over tasks: some
rows of one image. A task computes the depthwise result of its rows, for all channels and with
everything that follows applied, into a buffer that stays in the core's cache; then multiplies the
pixels of the buffer, counted across rows. Where tasks share a row pixel by pixel, the pixels of a
task lie at the same places of its buffer, what its first row has before them below.

    data    [N, C / c, H, W, c]     wide [C / c][row, column][c]
    weights [C / c, 1, h, w, 1, c] and [O / o, C / c, 1, 1, c, o]

A vector of sums holds one output chunk, or several that fill it together (`output_vectors.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.half_sums import HALF
from tvm_fusionx.schedules.parts.hand_written_kernel import Gather
from tvm_fusionx.schedules.parts.hidden_numbers import (
    PAIR_REACH,
    PAIR_REACH_OF_HALVES,
    with_hidden_numbers,
)
from tvm_fusionx.schedules.parts.operand import GatheredOperand
from tvm_fusionx.schedules.parts.tasks import start_of, tasks
from tvm_fusionx.schedules.windows.depthwise_pointwise_structure import Pair
from tvm_fusionx.schedules.windows.depthwise_pointwise_tiling import PairTiling
from tvm_fusionx.schedules.windows.first_addend import FirstAddend
from tvm_fusionx.schedules.windows.in_place_kernel import InPlaceKernel
from tvm_fusionx.schedules.windows.pointwise_kernel import PixelProducts
from tvm_fusionx.schedules.windows.pointwise_tiling import in_chunks
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.strip_kernel import Span, StripKernel
from tvm_fusionx.schedules.windows.structure import PaddedWindow


@dataclass(frozen=True)
class DepthwisePointwiseKernel:
    """A depthwise convolution and the pointwise one after it."""

    pair: Pair

    tiling: PairTiling
    """How it is divided, a vector counted as a chunk of the output."""

    middle: Gather
    """Called with each depthwise sum: image, chunk, row, column, lane and the value."""

    result: WindowResult
    """Stores the pointwise sums."""

    packs: bool = False
    """Whether pointwise weights of a tile are put side by side before pixels are multiplied."""

    has_rest: bool = False
    """Whether pixels that fill no tile have a narrower one."""

    half_terms: int = 0
    """Most terms of a sum of halves, and the depthwise result is halves; 0 for float32 alone."""

    addend: FirstAddend | None = None
    """What depthwise sums of halves begin with."""

    @property
    def shares_rows(self) -> bool:
        """Whether tasks share rows pixel by pixel."""
        return self.tiling.pixels != self.tiling.rows * self.pair.depthwise.columns

    @property
    def lead(self) -> int:
        """Room for what the first row has before the pixels of a task, the last row after them."""
        return self.pair.depthwise.columns - 1 if self.shares_rows else 0

    def build(self, *, parallel: bool) -> Any:
        """Return the statement that computes the pair, on several threads or on one."""
        ib, first, second = tir.ir_builder.create(), self.pair.depthwise, self.pair.pointwise
        tiling, inner, columns = self.tiling, first.block_out, first.columns
        product = PixelProducts(
            ib,
            second,
            self.pair.pointwise.weights,
            tiling.tile,
            tiling.pixels,
            in_chunks(second),
            self.result,
            self.packs,
            self.has_rest,
            self.half_terms,
        )
        groups = self.result.vectors.number // tiling.tile.chunks
        slabs = math.ceil(first.rows / tiling.rows)
        with tasks(ib, (first.batch, slabs), parallel=parallel) as (image, slab):
            first_row, rows, offset = self._place_of_task(slab)
            pixels = tiling.pixels + 2 * self.lead
            dtype = HALF if self.half_terms else self.pair.data.dtype
            wide = GatheredOperand(ib, dtype, first.out_blocks, pixels * inner)
            with ib.for_range(0, first.out_blocks, "chunk") as chunk:
                if tiling.strip:
                    self._strips(wide, first_row, self.lead - offset).rows(
                        ib, image, chunk, first_row, rows, self._spans(slabs)
                    )
                else:
                    with ib.for_range(0, rows, "row") as row:
                        begin = self.lead - offset + row * columns
                        self._depthwise(wide, begin).row(ib, image, chunk, first_row + row)

            def pixel_at(start: Any, pixel: Any) -> tuple[Any, Any]:
                at = offset + start + pixel
                return first_row + tir.floordiv(at, columns), tir.floormod(at, columns)

            # Where in the buffer pixels lie does not depend on `offset`: LLVM would miss that they
            # are neighbours, and compute an address for each of them in the innermost loop.
            with ib.for_range(0, groups, "group") as group:
                product.group(
                    group,
                    lambda in_chunk, start, pixel, channel: wide.load(
                        in_chunk, (self.lead + start + pixel) * inner + channel
                    ),
                    image,
                    pixel_at,
                )
        kernel = ib.get()
        return with_hidden_numbers(kernel) if tiling.strip else kernel

    def _place_of_task(self, number: Any) -> tuple[Any, Any, Any]:
        """Return a task's first row, its rows, and its first pixel counted from there."""
        window, rows, pixels = self.pair.depthwise, self.tiling.rows, self.tiling.pixels
        if not self.shares_rows:
            return start_of(number, rows, window.rows), rows, 0
        first = tir.min(number * pixels, window.rows * window.columns - pixels)
        first_row = tir.floordiv(first, window.columns)
        last_row = tir.floordiv(first + pixels - 1, window.columns)
        return first_row, last_row - first_row + 1, first - first_row * window.columns

    def _spans(self, slabs: int) -> set[Span]:
        """Return first row and number of rows of each task."""
        analyzer = tvm.arith.Analyzer()
        places = (self._place_of_task(tir.const(slab, "int32")) for slab in range(slabs))
        return {
            (int(analyzer.simplify(first)), int(analyzer.simplify(rows)))
            for first, rows, _ in places
        }

    def _strips(self, wide: GatheredOperand, first_row: Any, begin: Any) -> StripKernel:
        """Return what computes several rows at a time into the buffer, `first_row` at `begin`."""
        window = self.pair.depthwise

        def keep(_: Any, chunk: Any, row: Any, column: Any, lane: Any, value: Any) -> Any:
            pixel = begin + (row - first_row) * window.columns + column
            return wide.store(self._kept(value), chunk, pixel * window.block_out, lane)

        return StripKernel(
            self._padded,
            self.tiling.strip,
            self.tiling.columns,
            WindowResult.by_chunk(self.middle(keep), window, self.addend),
            PAIR_REACH_OF_HALVES if self.half_terms else PAIR_REACH,
            bool(self.half_terms),
        )

    def _kept(self, value: Any) -> Any:
        return tir.Cast(HALF, value) if self.half_terms else value

    @property
    def _padded(self) -> PaddedWindow:
        pair = self.pair
        return PaddedWindow(pair.depthwise, pair.data, pair.padding, pair.pad)

    def _depthwise(self, wide: GatheredOperand, begin: Any) -> InPlaceKernel:
        """Return what computes rows into the buffer, from pixel `begin` on."""
        window = self.pair.depthwise

        def keep(_: Any, chunk: Any, __: Any, column: Any, lane: Any, value: Any) -> Any:
            return wide.store(self._kept(value), chunk, (begin + column) * window.block_out, lane)

        return InPlaceKernel(
            self._padded,
            1,
            self.tiling.columns,
            WindowResult.by_chunk(self.middle(keep), window),
        )
