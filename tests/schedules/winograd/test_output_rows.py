"""Rows of tiles go where they belong: chunk by chunk, as far as the image reaches, or pooled."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tests.relay_modules import EXACT, assert_close
from tests.schedules.winograd_convolution import problem
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.winograd.output_rows import Pooling, TileRows
from tvm_fusionx.schedules.winograd.pool import Pool

LANES = 2
# Three chunks of a panel in two vectors, which lie over each other; and one chunk a vector.
JOINED = (1, 2)


def _built(
    joined: int, pool: Pool | None, *, along_pixels: bool = False
) -> tuple[Any, tuple[int, ...], tuple[int, ...]]:
    """Return a kernel that writes one image of 6 rows and 5 columns from its tiles."""
    sized = dataclasses.replace(
        problem(8, 6, 4), out_shape=(1, 3, 6, 5, LANES), panel=3 * LANES, joined=joined
    )
    vectors, tile = sized.panel_vectors, sized.filtering.tile
    high, wide = (1, 1) if pool is None else pool.window
    shape = (2, 2, vectors.number, tile, tile * vectors.lanes)
    tiles = tir.decl_buffer(shape, "float32", "tiles")
    found = tir.decl_buffer((1, 3, 6 // high, 5 // wide, LANES), "float32", "found")
    ib = tir.ir_builder.create()

    def write(*place_and_value: Any) -> Any:
        *place, value = place_and_value
        return tir.BufferStore(found, value, place)

    rows = TileRows(ib, sized, WindowResult(write, vectors, along_pixels))
    with (
        ib.for_range(0, 2, "row") as row,
        ib.for_range(0, 2, "column") as column,
        ib.for_range(0, vectors.number, "vector") as vector,
    ):
        place = (tir.const(0, "int32"), row, column)
        pooled = ib.allocate("float32", (tile * vectors.lanes,), "pooled")._buffer
        for k in range(tile):
            pixels = VectorSums(ib, tile, vectors.lanes, "float32")
            with ib.for_range(0, tile * vectors.lanes, "at") as at:
                ib.emit(
                    tir.BufferStore(
                        pixels.buffer, tir.BufferLoad(tiles, [row, column, vector, k, at]), [at]
                    )
                )
            first = vectors.first_chunk(vector)
            if pool is None:
                rows.write_row(pixels, k, first, place)
            else:
                doubled = Pooling(pool, lambda *read: read[-1] * tir.const(2, "float32"))
                rows.pool_row(doubled, pixels, pooled, k, first, place)
    shapes = shape, tuple(map(int, found.shape))
    return (tvm.build(tir.PrimFunc([tiles, found], ib.get()), "llvm"), *shapes)


def _tiles_of(image: np.ndarray, joined: int, shape: tuple[int, ...]) -> np.ndarray:
    """Return the tiles of ``[3, 6, 5, lanes]``, vector by vector; what is beyond it is NaN."""
    padded = np.full((3, 8, 8, LANES), np.nan, "float32")
    padded[:, :6, :5] = image
    tiles = padded.reshape(3, 2, 4, 2, 4, LANES).transpose(1, 3, 0, 2, 4, 5)
    firsts = (0, 1, 2) if joined == 1 else (0, 1)
    chosen = [tiles[:, :, first : first + joined] for first in firsts]
    # [row, column, chunk, k, j, lane] becomes [row, column, k, j, chunk, lane].
    vectors = [each.transpose(0, 1, 3, 4, 2, 5) for each in chosen]
    return np.ascontiguousarray(np.stack(vectors, 2)).reshape(shape)


@pytest.mark.parametrize("along_pixels", [True, False])
@pytest.mark.parametrize("joined", JOINED)
def test_rows_are_written_as_far_as_the_image_reaches(joined: int, along_pixels: bool) -> None:
    built, given, shape = _built(joined, None, along_pixels=along_pixels)
    image = np.random.default_rng(0).standard_normal((3, 6, 5, LANES), dtype="float32")
    found = tvm.nd.array(np.full(shape, np.nan, "float32"))
    built(tvm.nd.array(_tiles_of(image, joined, given)), found)
    assert_close([found.numpy()[0]], [image], EXACT)


@pytest.mark.parametrize("joined", JOINED)
def test_a_pool_takes_what_is_between(joined: int) -> None:
    pool = Pool("pool", None, (2, 1), tir.Max)
    built, given, shape = _built(joined, pool)
    image = np.random.default_rng(0).standard_normal((3, 6, 5, LANES), dtype="float32")
    found = tvm.nd.array(np.full(shape, np.nan, "float32"))
    built(tvm.nd.array(_tiles_of(image, joined, given)), found)
    assert_close([found.numpy()[0]], [2 * image.reshape(3, 3, 2, 5, LANES).max(2)], EXACT)
