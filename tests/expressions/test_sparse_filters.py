"""The operator of filters with zeros of their own: what it defines, by plain TVM, is numpy's."""

from __future__ import annotations

import numpy as np
import pytest

from tests.schedules.filter_blocks import filter_window, patterned, scattered
from tests.schedules.sparse_blocks import Window, run_plainly
from tvm_fusionx.expressions.sparse_filters import SHARING, FilterPlanes

WINDOWS = (
    Window(1, 8, 8, 5, 6, lanes=4),
    Window(1, 8, 8, 7, 6, stride=2, padding=(0, 1, 1, 0), lanes=4),
    Window(2, 8, 8, 7, 6, dilation=2, lanes=4),
    Window(1, 8, 8, 6, 6, kernel=1, stride=2, padding=(0, 0, 0, 0), lanes=4),
)
PATTERNS = ((0, 1, 4, 8), (1, 2, 4, 5), (3, 4, 6, 7))


@pytest.mark.parametrize("by_pattern", [False, True])
def test_windows_by_definition(by_pattern: bool) -> None:
    case = WINDOWS[1]
    weight = patterned(case, 0.6) if by_pattern else scattered(case, 0.3)
    body, stored = filter_window(case, weight, by_pattern=by_pattern, rows=2)
    x = case.image()
    found = run_plainly(body, {"x": x, "values": stored.values, "index": stored.index})
    assert np.abs(found - case.expected(x, weight)).max() < 1e-5 * np.abs(found).max()


@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_a_distance_tells_its_place(case: Window) -> None:
    geometry = case.geometry
    planes = FilterPlanes(geometry, 2)
    for tap in range(case.kernel**2):
        row, column = divmod(tap, case.kernel)
        told = planes.place(3 * planes.plane + planes.distance(tap))
        assert told == (3, row * geometry.dilation[0], column * geometry.dilation[1])


def test_numbers_and_text_tell_all() -> None:
    planes = FilterPlanes(WINDOWS[0].geometry, 3, PATTERNS)
    shape = (1, 2, 5, 6, 4)
    assert FilterPlanes.of(shape, planes.numbers) == planes
    assert planes.text == "3/0,1,4,8/1,2,4,5/3,4,6,7"
    assert (planes.taps, planes.bits) == (4, 2)
    single = FilterPlanes(WINDOWS[0].geometry, 3)
    assert FilterPlanes.of(shape, single.numbers) == single
    assert (single.text, single.distances(), single.bits) == ("3", [[0]], 0)


def test_planes_share_no_sets() -> None:
    square = Window(1, 8, 8, 32, 32, kernel=1, padding=(0, 0, 0, 0), lanes=4)
    assert FilterPlanes(square.geometry, 32).plane % SHARING != 0
