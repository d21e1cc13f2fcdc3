"""Tiles of columns and the taps that lie in the image, against plain counting."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tir

from tests.schedules.blocked_blocks import depthwise, describe
from tvm_fusionx.schedules.windows.border_tiles import WindowTiles
from tvm_fusionx.schedules.windows.structure import Window, find_window

CASES = {
    "stride 1": ((9, 17), (3, 3), 1, 1, 1),
    "stride 2": ((9, 17), (3, 3), 2, 1, 1),
    "dilated": ((9, 17), (3, 3), 1, 2, 2),
    "no padding": ((9, 17), (3, 3), 1, 1, 0),
    "wide padding": ((4, 5), (3, 3), 1, 1, 4),
}


def _tiles(case: str, columns: int) -> WindowTiles:
    size, kernel, stride, dilation, padding = CASES[case]
    window = find_window(
        describe(
            depthwise(
                8,
                size,
                kernel,
                strides=(stride, stride),
                padding=(padding,) * 4,
                dilation=(dilation, dilation),
            )
        )
    )
    assert isinstance(window, Window)
    return WindowTiles(window, (padding, padding), *size, min(columns, window.columns))


@pytest.mark.parametrize("columns", [1, 4, 5])
@pytest.mark.parametrize("case", CASES)
def test_every_column_is_covered_and_loops_touch_no_border(case: str, columns: int) -> None:
    tiles = _tiles(case, columns)
    ib = tir.ir_builder.create()
    covered: set[int] = set()

    def emit(start: Any) -> None:
        starts = [start] if isinstance(start, int) else _values(start, tiles)
        for first in starts:
            covered.update(range(first, first + tiles.columns))
            if not isinstance(start, int):
                assert tiles.column(first, 0, 0) >= 0
                assert tiles.column(first, tiles.columns - 1, 2) < tiles.width
        ib.emit(tir.Evaluate(0))

    tiles.emit(ib, emit)
    assert covered == set(range(tiles.window.columns))


def _values(start: Any, tiles: WindowTiles) -> list[int]:
    """Return the values of ``first + number * columns`` inside the image."""
    (number,) = (var for var in tir.analysis.undefined_vars(start))
    found = []
    for at in range(tiles.window.columns):
        value = int(
            tvm.arith.Analyzer().simplify(
                tir.stmt_functor.substitute(start, {number: tir.const(at, "int32")})
            )
        )
        last = tiles.column(value, tiles.columns - 1, 2)
        if last < tiles.width and value + tiles.columns <= tiles.window.columns:
            found.append(value)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_taps_of_a_row_are_those_in_the_image(case: str) -> None:
    tiles = _tiles(case, 4)
    window, analyzer = tiles.window, tvm.arith.Analyzer()
    for row in range(window.rows):
        first, number = (
            int(analyzer.simplify(tir.const(0, "int32") + each))
            for each in tiles.row_taps(tir.const(row, "int32"))
        )
        inside = [tap for tap in range(window.kernel[0]) if 0 <= tiles.row(row, tap) < tiles.height]
        assert list(range(first, first + number)) == inside or (not inside and number == 0)


def test_only_known_columns_are_known_to_be_border() -> None:
    tiles = _tiles("stride 1", 4)
    assert tiles.is_border(-1)
    assert tiles.is_border(17)
    assert not tiles.is_border(16)
    assert not tiles.is_border(tir.Var("column", "int32"))
