"""Windows over one channel: sizes of up to three axes, and windows of nothing but padding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.schedules.channel_pools.window import ChannelWindow, largest, three

WINDOW = ChannelWindow(
    tir.decl_buffer((1, 2, 4, 5, 7)),
    tir.decl_buffer((1, 2, 4, 5, 7)),
    kernel=(3, 3, 3),
    stride=(1, 1, 1),
    padding=(1, 1, 1),
    lowest=tir.const(-1.0, "float32"),
)


def test_axes_that_are_not_there_are_one_long() -> None:
    assert three((5, 7)) == (1, 5, 7)
    image = replace(WINDOW, data=tir.decl_buffer((1, 2, 6, 8)))
    assert image.moving == 2
    assert image.size == (1, 6, 8)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({}, True),
        ({"padding": (1, 3, 1)}, False),
        ({"result": tir.decl_buffer((1, 2, 4, 6, 7))}, True),
        ({"result": tir.decl_buffer((1, 2, 4, 7, 7))}, False),
        ({"stride": (1, 2, 1)}, False),
    ],
)
def test_a_window_of_nothing_but_padding_is_known(how: dict[str, Any], expected: bool) -> None:
    assert replace(WINDOW, **how).is_over_data() == expected


@pytest.mark.parametrize(
    ("row", "how", "expected"),
    [
        (2, {}, [1, 2, 3]),
        (0, {}, [0, 0, 1]),
        (4, {}, [3, 4, 4]),
        (1, {"stride": (1, 2, 1), "result": tir.decl_buffer((1, 2, 4, 2, 7))}, [1, 2, 3]),
    ],
)
def test_what_is_beyond_the_data_stands_for_the_nearest(
    row: int, how: dict[str, Any], expected: list[int]
) -> None:
    at = tir.Var("row", "int32")
    found = replace(WINDOW, **how).under(1, at)
    known = [tir.stmt_functor.substitute(each, {at: tir.const(row)}) for each in found]
    assert [int(tvm.arith.Analyzer().simplify(each)) for each in known] == expected


def test_the_largest_of_some() -> None:
    found = largest([tir.const(each) for each in (2, 7, 5)])
    assert int(tvm.arith.Analyzer().simplify(found)) == 7
