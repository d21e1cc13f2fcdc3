"""How products of bytes are cut into tiles, and which of them are."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.schedules.byte_blocks import TILES
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.byte_tiles.tiling import (
    BlockOfTiles,
    ProductShape,
    block_of,
    tasks_of,
    tile_cycles,
    vector_cycles,
    why_not_tiles,
)

CPU = describe_cpu(resolve_target(TILES))
WINDOW = {"kernel": (3, 3), "gathers": True}


@pytest.mark.parametrize(
    ("terms", "step"), [(768, 64), (312, 52), (96, 48), (144, 48), (76, 4), (4, 4), (6, 0)]
)
def test_a_step_divides_the_terms(terms: int, step: int) -> None:
    assert CPU.tiles is not None
    assert ProductShape(1, 1, 8, terms, 16).step_bytes(CPU.tiles) == step


@pytest.mark.parametrize(
    ("places", "block"),
    [
        ((1, 128), BlockOfTiles(16, 16, 2, 2, False)),
        # Evenly: 49 places are 4 tiles of 13, of which the last moves back.
        ((1, 49), BlockOfTiles(13, 13, 2, 2, False)),
        # One pair of tiles that overlap by a place: there is no room to move back.
        ((1, 17), BlockOfTiles(9, 8, 2, 2, False)),
        # Rows no longer than a tile are taken two by two.
        ((4, 14), BlockOfTiles(14, 14, 2, 2, True)),
        ((1, 5), BlockOfTiles(5, 5, 1, 2, True)),
    ],
)
def test_blocks(places: tuple[int, int], block: BlockOfTiles) -> None:
    assert CPU.tiles is not None
    assert block_of(*places, 64, CPU.tiles) == block


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_block_lies_within_the_places(rows: int) -> None:
    """Of any number of them: what lies behind is another tensor."""
    assert CPU.tiles is not None
    for columns in range(1, 130):
        block = block_of(rows, columns, 64, CPU.tiles)
        assert block.columns <= columns, columns
        assert block.places_down <= rows
        assert block.apart <= block.rows <= CPU.tiles.rows


def test_places_that_each_read_one_lie_in_a_row() -> None:
    shape = ProductShape(2, 7, 9, 64, 32, stride=(2, 2), gathers=True)
    assert shape.in_line == ProductShape(2, 1, 63, 64, 32, gathers=True)
    window = ProductShape(1, 7, 9, 64, 32, (3, 3))
    assert window.in_line is window


@pytest.mark.parametrize(
    "shape",
    [
        ProductShape(1, 1, 128, 384, 1536),
        ProductShape(1, 56, 56, 64, 64, **WINDOW),
        ProductShape(1, 7, 7, 512, 512, **WINDOW),
        ProductShape(1, 1, 3136, 256, 64, gathers=True),
        ProductShape(1, 1, 49, 2048, 512, gathers=True),
        ProductShape(8, 7, 7, 512, 512, **WINDOW),
    ],
)
def test_tasks(shape: ProductShape) -> None:
    """Each core has a task, and the data of one fits its cache."""
    tasks = tasks_of(shape, CPU)
    slabs = math.ceil(shape.rows / tasks.rows) * math.ceil(shape.columns / tasks.columns)
    assert shape.batch * slabs * tasks.parts >= CPU.cores
    read = shape.rows_read(tasks.rows) * shape.columns_read(tasks.columns) * shape.row_stride()
    assert read <= CPU.l2_for_kernel_bytes
    if shape.gathers:
        # What several tasks gather is gathered again.
        assert tasks.parts <= CPU.cores


@pytest.mark.parametrize(
    ("shape", "on_tiles"),
    [
        (ProductShape(1, 1, 128, 384, 384), True),
        (ProductShape(1, 1, 8, 384, 384), True),
        (ProductShape(1, 14, 14, 256, 256, **WINDOW), True),
        # Few rows, little depth.
        (ProductShape(1, 1, 1, 512, 1008), False),
        (ProductShape(1, 1, 2, 384, 384), False),
        (ProductShape(1, 1, 128, 16, 64), False),
        (ProductShape(1, 112, 112, 4, 64, (7, 7), (2, 2), gathers=True), False),
    ],
)
def test_which_are_on_tiles(shape: ProductShape, on_tiles: bool) -> None:
    reason = why_not_tiles(shape, CPU)
    assert (reason is None) == on_tiles == (tile_cycles(shape, CPU) < vector_cycles(shape, CPU))
    assert reason is None or "by the estimate" in reason


def test_what_has_no_tiles() -> None:
    shape = ProductShape(1, 1, 128, 384, 384)
    assert "no registers" in str(why_not_tiles(shape, replace(CPU, tiles=None)))
    assert "no whole tiles" in str(why_not_tiles(replace(shape, outputs=24), CPU))
    assert "no words" in str(why_not_tiles(replace(shape, terms=6), CPU))
