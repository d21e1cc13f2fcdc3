"""Windows taken axis by axis: nothing is padded, and few elements are compared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tvm import relay, tir

from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.channel_pool_kernel import ChannelWindow, three

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


def test_a_window_of_three_axes_is_three_of_one() -> None:
    body = relay.nn.max_pool3d(var("x", 1, 3, 4, 6, 8), (3, 3, 3), padding=(1,) * 6)
    func = schedule(unscheduled(body), resolve_target(TARGET)).func
    found: list[object] = []

    def count(node: object) -> None:
        if isinstance(node, tir.Max) and "x" in node.dtype:
            found.append(node)

    tir.stmt_functor.post_order_visit(func.body, count)
    # One more for the least of all numbers, with which each window begins.
    assert len(found) == 2 + 2 + 2 + 1
    assert "if_then_else" not in func.script()
    assert "alloc_buffer" not in func.script()
