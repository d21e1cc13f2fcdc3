"""Operators of weights with zeros: what they define, by plain TVM, is what numpy computes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.schedules.sparse_blocks import Window, dense, pruned, run_plainly, window
from tvm_fusionx.expressions.sparse_products import Geometry

WINDOWS = (
    Window(1, 16, 16, 5, 6),
    Window(1, 16, 8, 7, 6, stride=2, padding=(0, 1, 1, 0)),
    Window(1, 16, 8, 7, 6, dilation=2),
    Window(1, 8, 8, 6, 6, kernel=1, stride=2, padding=(0, 0, 0, 0)),
    Window(2, 16, 8, 3, 4, kernel=1, padding=(0, 0, 0, 0)),
)
# Strides put columns in two parts of a plane.
PLANAR = tuple(replace(each, planar=True) for each in WINDOWS[1:4])


@pytest.mark.parametrize("case", [WINDOWS[1], PLANAR[0]], ids=str)
def test_windows_by_definition(case: Window) -> None:
    weight = pruned(case.outputs, case.columns, 4, 0.5)
    body, stored = window(case, weight, 8, 4)
    x = case.image()
    found = run_plainly(body, {"x": x, "values": stored.values, "index": stored.index})
    assert np.abs(found - case.expected(x, weight)).max() < 1e-5 * np.abs(found).max()


def test_rows_by_definition() -> None:
    weight = pruned(12, 10, 4, 0.5)
    body, stored = dense(3, weight, 8, 4)
    x = np.random.default_rng(1).standard_normal((3, 10)).astype("float32")
    found = run_plainly(body, {"x": x, "values": stored.values, "index": stored.index})
    assert np.abs(found - x @ weight.T).max() < 1e-5 * np.abs(found).max()


@pytest.mark.parametrize("case", WINDOWS + PLANAR, ids=str)
def test_an_offset_tells_its_place(case: Window) -> None:
    geometry = case.geometry
    offsets = geometry.offsets().reshape(geometry.chunks, *geometry.kernel, geometry.lanes)
    for (chunk, row, column, lane), offset in np.ndenumerate(offsets):
        if geometry.is_in_place:
            assert offset == chunk * geometry.lanes + lane
            continue
        place = (row * case.dilation, chunk, column * case.dilation, lane)
        assert geometry.place(int(offset)) == place


@pytest.mark.parametrize("case", WINDOWS + PLANAR, ids=str)
def test_geometry_comes_back_from_its_numbers(case: Window) -> None:
    geometry = case.geometry
    assert Geometry.of(case.image().shape, geometry.numbers) == geometry
    assert case.expected(case.image(), pruned(case.outputs, case.columns, 4, 1)).shape[2:4] == (
        geometry.result
    )


def test_neighbouring_windows_read_neighbours_of_a_plane() -> None:
    for case in PLANAR:
        geometry = case.geometry
        for tap in range(geometry.kernel[1]):
            column = tap * geometry.dilation[1]
            places = [
                geometry.position(window * geometry.moves[1] + column)
                for window in range(geometry.result[1])
            ]
            assert places == list(range(places[0], places[0] + len(places)))
            assert places[-1] < geometry.positions
