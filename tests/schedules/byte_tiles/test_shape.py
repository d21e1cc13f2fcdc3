"""What is summed on tiles: steps of terms, places in line, columns of a window joined."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.schedules.byte_blocks import TILES
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape

CPU = describe_cpu(resolve_target(TILES))


@pytest.mark.parametrize(
    ("terms", "step"), [(768, 64), (312, 52), (96, 48), (144, 48), (76, 4), (4, 4), (6, 0)]
)
def test_a_step_divides_the_terms(terms: int, step: int) -> None:
    assert CPU.tiles is not None
    assert ProductShape(1, 1, 8, terms, 16).step_bytes(CPU.tiles) == step


def test_places_that_each_read_one_lie_in_a_row() -> None:
    shape = ProductShape(2, 7, 9, 64, 32, stride=(2, 2), gathers=True)
    assert shape.in_line == ProductShape(2, 1, 63, 64, 32, gathers=True)
    window = ProductShape(1, 7, 9, 64, 32, (3, 3))
    assert window.in_line is window


@pytest.mark.parametrize(
    ("shape", "joined", "products"),
    [
        # A picture's four channels: seven products of 28 terms, for 49 of 4.
        (ProductShape(1, 112, 112, 4, 64, (7, 7), (2, 2)), True, 7),
        (ProductShape(1, 9, 9, 16, 64, (3, 3)), True, 3),
        (ProductShape(1, 9, 9, 32, 64, (3, 3)), True, 6),
        # As many products either way.
        (ProductShape(1, 9, 9, 64, 64, (3, 3)), False, 9),
        # Columns that are apart, or one.
        (ProductShape(1, 9, 9, 16, 64, (3, 3), dilation=(1, 2)), False, 9),
        (ProductShape(1, 9, 9, 16, 64, (3, 1)), False, 3),
    ],
)
def test_columns_are_joined(shape: ProductShape, joined: bool, products: int) -> None:
    assert CPU.tiles is not None
    found = shape.on_tiles(CPU.tiles)
    assert (found.joined, found.products(CPU.tiles)) == (joined, products)


def test_rows_that_share_sets_of_the_cache_are_moved_apart() -> None:
    shape = ProductShape(1, 9, 9, 256, 64, (3, 3))
    assert shape.row_stride() == 256 + 64
    assert replace(shape, terms=192).row_stride() == 192
    # Joined columns stay side by side.
    assert replace(shape, joined=True).row_stride() == 256
