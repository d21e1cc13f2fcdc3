"""What a product of bytes on tiles computes: its places, terms and window."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_fusionx.processors.integers import WORD_BYTES, ByteTiles
from tvm_fusionx.processors.rates import LINE_BYTES
from tvm_fusionx.tir.numbers import divisors

# A row of data whose length is such a multiple shares sets of the first-level cache with the others
# of its tile and of the tiles below: it gets a line more. On Emerald Rapids 3 x 3 over 14 x 14, 256
# channels, takes 165 us of a core without, and 103 with it.
CROWDED_BYTES = 256


@dataclass(frozen=True)
class ProductShape:
    """A product of bytes: a convolution, or a matrix product, which is one of one row of places."""

    batch: int
    rows: int
    columns: int
    """Places of the result, of an image."""
    terms: int
    """Bytes that are multiplied for each place of the window: channels, or the length of a row."""
    outputs: int
    """Channels of the result."""
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    gathers: bool = False
    """Whether the data is put side by side first."""
    joined: bool = False
    """Whether the places of a row of the window are terms of one, for they lie side by side."""

    @property
    def in_line(self) -> ProductShape:
        """The same with all places in one row, where each reads one place of the data."""
        if self.kernel != (1, 1):
            return self
        return replace(self, rows=1, columns=self.rows * self.columns, stride=(1, 1))

    def on_tiles(self, tiles: ByteTiles) -> ProductShape:
        """Return the same as it is summed: in line, or joined where that takes fewer products.

        Three columns of 16 channels are 48 terms for one product of tiles, where they were three of
        16; seven of a picture's 4 channels are 28.
        """
        if self.kernel[1] == 1 or self.dilation[1] != 1:
            return self.in_line
        joined = replace(self, joined=True)
        return joined if joined.products(tiles) < self.products(tiles) else self

    @property
    def line_terms(self) -> int:
        """Terms that lie side by side, of which steps are cut."""
        return self.terms * self.kernel[1] if self.joined else self.terms

    @property
    def lines(self) -> tuple[int, int]:
        """How many such lines of terms a window has, down and along."""
        return self.kernel[0], 1 if self.joined else self.kernel[1]

    def step_bytes(self, tiles: ByteTiles) -> int:
        """Return the terms that one product of tiles adds up."""
        fitting = [each for each in divisors(self.line_terms) if each <= tiles.row_bytes]
        return max((each for each in fitting if each % WORD_BYTES == 0), default=0)

    def products(self, tiles: ByteTiles) -> int:
        """Return the products of tiles that are added up for each place; 0 where none fits."""
        step = self.step_bytes(tiles)
        down, along = self.lines
        return down * along * (self.line_terms // step) if step else 0

    def rows_read(self, rows: int) -> int:
        """Return the rows of data under so many rows of the result."""
        return (rows - 1) * self.stride[0] + (self.kernel[0] - 1) * self.dilation[0] + 1

    def columns_read(self, columns: int) -> int:
        """Return the columns of data under so many columns of the result."""
        return (columns - 1) * self.stride[1] + (self.kernel[1] - 1) * self.dilation[1] + 1

    def row_stride(self) -> int:
        """Return the bytes from one gathered place to the next."""
        is_crowded = self.terms % CROWDED_BYTES == 0 and not self.joined
        return self.terms + (LINE_BYTES if is_crowded else 0)
