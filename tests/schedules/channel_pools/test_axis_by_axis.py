"""Windows taken axis by axis: nothing is padded, and few elements are compared."""

from __future__ import annotations

import pytest
from tvm import relay, tir

from tests.relay_modules import EXACT, TARGET, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_scheduled, unscheduled
from tvm_fusionx.schedules import resolve_target, schedule

SMALL = {"pool_size": (3, 3, 3), "padding": (1,) * 6}
PLANES = {
    "channels together, some left over": relay.nn.max_pool3d(var("x", 1, 37, 2, 7, 7), **SMALL),
    "channels together, computed before": relay.nn.max_pool3d(
        relay.abs(var("x", 2, 33, 3, 5, 5)), **SMALL
    ),
    "planes of one channel": relay.nn.max_pool3d(var("x", 1, 2, 40, 7, 7), **SMALL),
    "large planes": relay.nn.max_pool3d(var("x", 1, 5, 2, 19, 18), **SMALL),
    "shares": relay.nn.max_pool3d(var("x", 3, 151, 2, 7, 7), **SMALL),
}


@pytest.mark.parametrize("case", few_fast(PLANES))
def test_planes_of_every_size_are_right(case: str) -> None:
    assert_scheduled(PLANES[case], "channel_pool", EXACT)


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
