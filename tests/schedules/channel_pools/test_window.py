"""Windows over one channel: sizes of up to three axes, and windows of nothing but padding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tvm import tir

from tvm_fusionx.schedules.channel_pools.window import ChannelWindow, three

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
