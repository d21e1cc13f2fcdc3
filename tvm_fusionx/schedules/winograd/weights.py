"""Weights of a convolution by minimal filtering that the kernel itself transforms.

Transformed, weights are 1.8 to 4 times as large. Where there are many of them and few tiles, to
read them takes longer than the products; to transform them again on every run does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.expressions.minimal_filtering import WINDOW, Filtering
from tvm_fusionx.processors.rates import FLOAT_BYTES, LINE_BYTES
from tvm_fusionx.schedules.parts.operand import chunk_stride
from tvm_fusionx.schedules.parts.prefetch import fetched
from tvm_fusionx.schedules.parts.vectors import Vectors, load, ramp
from tvm_fusionx.schedules.winograd.apply_matrix import apply_matrix

LINE_FLOATS = LINE_BYTES // FLOAT_BYTES


@dataclass(frozen=True)
class ReadyWeights:
    """A buffer for the transformed weights of one panel and some input channels."""

    filtering: Filtering
    channels: int
    """Input channels."""
    panel: int
    """Output channels."""

    @property
    def point_stride(self) -> int:
        """Elements from one point to the next."""
        return chunk_stride(self.channels * self.panel)

    @property
    def size(self) -> int:
        """Elements of the buffer."""
        return self.filtering.points * self.point_stride

    def at(self, point: Any, channel: Any, lane: int) -> Any:
        """Return the place of a weight."""
        return point * self.point_stride + channel * self.panel + lane

    def transform(
        self, vectors: Vectors, weights: Any, panel: Any, first: Any, into: Any, lanes: int
    ) -> None:
        """Write the statement that fills the buffer.

        Parameters
        ----------
        weights
            Buffer ``[O / panel, I, 3, 3, panel]``.
        panel
            Which panel.
        first
            First of the input channels.
        into
            Flat buffer of `size` elements.
        lanes
            Output channels of a vector; divides the panel.
        """
        ib, matrix, span = vectors.ib, self.filtering.weight_matrix, self.filtering.span
        with (
            ib.for_range(0, self.channels, "channel") as channel,
            ib.for_range(0, self.panel // lanes, "vector") as vector,
        ):
            start = vector * lanes
            half = vectors.allocate("half", span * WINDOW * lanes, "local")
            for column in range(WINDOW):
                keep = vectors.keeper("kept", lanes, 2 * span)
                values = [
                    keep(
                        tir.BufferLoad(
                            weights, [panel, first + channel, row, column, ramp(start, lanes)]
                        )
                    )
                    for row in range(WINDOW)
                ]
                for row, value in enumerate(apply_matrix(matrix, values, keep)):
                    vectors.store(half, (row * WINDOW + column) * lanes, value, lanes)
            for row in range(span):
                values = [
                    load(half, (row * WINDOW + column) * lanes, lanes) for column in range(WINDOW)
                ]
                keep = vectors.keeper("kept", lanes, span)
                for column, value in enumerate(apply_matrix(matrix, values, keep)):
                    place = self.at(row * span + column, channel, start)
                    vectors.store(into, place, value, lanes)

    def fetch(
        self, vectors: Vectors, weights: Any, panel: Any, first: Any, number: Any, shares: int
    ) -> None:
        """Write the statement that fetches one share of the weights from memory, ahead of use.

        They are read in short bursts, which the processor does not foresee, and nothing else is
        done while they arrive: 18 MB of them took 8.1 ms where 6.4 are enough.

        Parameters
        ----------
        weights, panel, first
            As of :meth:`transform`.
        number
            Which of the shares.
        shares
            Into how many the weights of the panel and channels are divided.
        """
        lines = self.channels * WINDOW * WINDOW * self.panel // LINE_FLOATS
        share = math.ceil(lines / shares)
        for k in range(share):
            element = tir.min(number * share + k, lines - 1) * LINE_FLOATS
            row = tir.floordiv(element, self.panel)
            place = [
                panel,
                first + tir.floordiv(row, WINDOW * WINDOW),
                tir.floordiv(tir.floormod(row, WINDOW * WINDOW), WINDOW),
                tir.floormod(tir.floormod(row, WINDOW * WINDOW), WINDOW),
                tir.floormod(element, self.panel),
            ]
            vectors.ib.emit(fetched(weights, place))
