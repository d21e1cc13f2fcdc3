"""Weights in blocks of 32 numbers that share a scale, from the bytes of a GGUF file.

The formats are llama.cpp's (``ggml-common.h``): a block is a half that scales, for Q4_1 a half that
is added, and the levels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.expressions.block_weights import BLOCK, NIBBLES_ZERO

Array = np.ndarray[Any, Any]

HALF_BYTES = 2


@dataclass(frozen=True)
class Format:
    """How a block lies in a file."""

    level_bytes: int
    """Of a block; half of its numbers where two share a byte."""

    has_minimum: bool
    """Whether a half is added."""

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return HALF_BYTES * (1 + self.has_minimum) + self.level_bytes


FORMATS = {
    "Q4_0": Format(BLOCK // 2, has_minimum=False),
    "Q4_1": Format(BLOCK // 2, has_minimum=True),
    "Q8_0": Format(BLOCK, has_minimum=False),
}


@dataclass(frozen=True)
class BlockTensor:
    """A matrix ``[N, K]`` in blocks along its rows."""

    levels: Array
    """``[N, K / 32, bytes]``: uint8 where two levels share a byte, else int8."""

    scales: Array
    """Bits of halves, uint16 ``[N, K / 32]``."""

    minima: Array | None = None
    """As the scales; None where there are none."""

    @property
    def shape(self) -> tuple[int, int]:
        """N and K."""
        return self.levels.shape[0], self.levels.shape[1] * BLOCK

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What there is of levels, scales and minima."""
        parts = (self.levels, self.scales, self.minima)
        return tuple(part for part in parts if part is not None)

    @property
    def kind(self) -> tuple[str, bool]:
        """What two must agree in to be one."""
        return str(self.levels.dtype), self.minima is not None

    def rows(self, order: Array) -> BlockTensor:
        """Return the matrix of some rows."""
        return BlockTensor(*(np.ascontiguousarray(part[order]) for part in self.arrays))

    def floats(self) -> Array:
        """Return the numbers, float32."""
        levels = self.levels.astype("int32")
        if self.levels.dtype == np.uint8:
            levels = np.concatenate([levels & 15, levels >> 4], axis=-1)
            levels = levels if self.minima is not None else levels - NIBBLES_ZERO
        numbers = levels * _halves(self.scales)
        if self.minima is not None:
            numbers = numbers + _halves(self.minima)
        return numbers.astype("float32").reshape(self.shape)


def _halves(bits: Array) -> Array:
    return bits.view("float16").astype("float32")[..., None]


def as_blocks(kind: str, data: Array, shape: tuple[int, ...]) -> BlockTensor:
    """Return a tensor's blocks, copied out of the file.

    Parameters
    ----------
    kind
        A name of :data:`FORMATS`.
    data
        Its bytes.
    shape
        Of the matrix.
    """
    form = FORMATS[kind]
    rows, length = shape
    blocks = data.view("uint8").reshape(rows, length // BLOCK, form.block_bytes)
    halves = [
        np.ascontiguousarray(blocks[..., at : at + HALF_BYTES]).view("<u2")[..., 0]
        for at in range(0, form.block_bytes - form.level_bytes, HALF_BYTES)
    ]
    levels = np.ascontiguousarray(blocks[..., -form.level_bytes :])
    if form.level_bytes == BLOCK:
        levels = levels.view("int8")
    return BlockTensor(levels, *halves)


def joined(parts: Sequence[Array | BlockTensor]) -> Array | BlockTensor | None:
    """Return matrices as one, below each other; None where they lie in different ways."""
    floats = [part for part in parts if isinstance(part, np.ndarray)]
    blocks = [part for part in parts if isinstance(part, BlockTensor)]
    if len(floats) == len(parts):
        return np.concatenate(floats)
    if len(blocks) < len(parts) or len({part.kind for part in blocks}) > 1:
        return None
    columns = zip(*(part.arrays for part in blocks), strict=True)
    return BlockTensor(*(np.concatenate(each) for each in columns))
