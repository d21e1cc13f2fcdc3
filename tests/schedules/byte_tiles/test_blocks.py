"""The tiles that a kernel sums at the same time."""

from __future__ import annotations

import pytest

from tests.schedules.byte_blocks import TILES
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.byte_tiles.blocks import (
    REGISTERS,
    BlockOfTiles,
    best_block,
    block_cycles,
    blocks,
)
from tvm_fusionx.schedules.byte_tiles.shape import ProductShape

CPU = describe_cpu(resolve_target(TILES))


def window(rows: int, columns: int, terms: int, stride: int = 1) -> ProductShape:
    return ProductShape(1, rows, columns, terms, terms, (3, 3), (stride, stride), gathers=True)


@pytest.mark.parametrize(
    ("places", "shape", "block"),
    [
        # Weights that stay in the first-level cache: as many tiles side by side as below.
        ((1, 128), ProductShape(1, 1, 128, 384, 384), BlockOfTiles(16, 16, 2, 1, 2)),
        # Evenly: 49 places are 4 tiles of 13, of which the last moves back.
        ((1, 49), ProductShape(1, 1, 49, 256, 64), BlockOfTiles(13, 13, 2, 1, 2)),
        # One pair of tiles that overlap by a place: there is no room to move back.
        ((1, 17), ProductShape(1, 1, 17, 256, 64), BlockOfTiles(9, 8, 2, 1, 2)),
        ((7, 56), window(56, 56, 64), BlockOfTiles(14, 14, 2, 1, 2)),
        # Weights that do not: read once for five rows.
        ((5, 14), window(14, 14, 256), BlockOfTiles(14, 14, 1, 5, 1)),
        # Short rows, with the border between them, are whole tiles as one.
        ((7, 7), window(7, 7, 512), BlockOfTiles(16, 16, 4, 7, 1, 9)),
    ],
)
def test_which_is_best(places: tuple[int, int], shape: ProductShape, block: BlockOfTiles) -> None:
    assert best_block(*places, shape, CPU) == block


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_all_lie_within_the_places_and_the_registers(rows: int) -> None:
    """Of any number of them: what lies behind is another tensor."""
    assert CPU.tiles is not None
    for columns in range(1, 130):
        found = list(blocks(rows, columns, window(rows, columns, 64), CPU.tiles))
        assert found
        for block in found:
            assert block.lines <= rows
            assert block.data_registers >= 1
            held = (block.down + 1) * block.across + block.data_registers
            assert held <= REGISTERS
            assert block.rows <= CPU.tiles.rows
            if block.pitch:
                assert (rows - 1) * block.pitch + columns <= block.down * block.rows
                assert block.lines == rows
                continue
            assert block.columns <= columns, (columns, block)
            assert block.apart <= block.rows
            # Blocks that move back to end with the places leave none out.
            assert block.number(rows, columns) * block.columns * block.lines >= rows * columns


def test_few_sums_wait_for_one_another() -> None:
    shape = window(8, 16, 64)
    one, four = BlockOfTiles(16, 16, 1, 1, 1), BlockOfTiles(16, 16, 1, 4, 1)
    assert block_cycles(one, 8, 16, shape, CPU) > 2 * block_cycles(four, 8, 16, shape, CPU)
