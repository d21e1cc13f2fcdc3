"""The tasks of products of bytes on tiles, and which products are."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from tests.schedules.byte_blocks import TILES
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape
from tvm_fusionx.schedules.byte_tiles.tiling import (
    tasks_of,
    tile_cycles,
    vector_cycles,
    why_not_tiles,
)

CPU = describe_cpu(resolve_target(TILES))
WINDOW = {"kernel": (3, 3), "gathers": True}


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
        # Seven columns of a picture are 28 terms; five of which every second is read are not.
        (ProductShape(1, 112, 112, 4, 64, (7, 7), (2, 2), gathers=True), True),
        (ProductShape(1, 112, 112, 4, 64, (5, 5), (1, 1), (2, 2), gathers=True), False),
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
