"""Windows whose columns are two apart: read where they lie, compared in registers."""

from __future__ import annotations

import pytest
from tvm import relay, tir

from tests.relay_modules import EXACT, TARGET, var
from tests.sampled import few_fast, few_fast_rows
from tests.schedules.blocked_blocks import assert_scheduled, describe, eight_lanes, unscheduled
from tests.schedules.matching import why_not
from tvm_fusionx._tvm.cures import concatenation_as_expression
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.channel_pools.template import CHANNEL_POOL


def _volume(value: relay.Expr, **window: object) -> relay.Expr:
    given = {"pool_size": (3, 3, 3), "strides": (2, 2, 2), "padding": (1,) * 6, **window}
    return relay.nn.max_pool3d(value, **given)


def _pieces(*size: int) -> list[relay.Expr]:
    return [var(f"p{place}", 2, channels, *size) for place, channels in enumerate((2, 3, 1))]


def _joined(*size: int) -> relay.Expr:
    return relay.concatenate(_pieces(*size), axis=1)


def _kept() -> relay.Expr:
    joined = _joined(4, 7, 18)
    return relay.Tuple([joined, _volume(joined)])


def _partly_computed() -> relay.Expr:
    first, *others = _pieces(4, 7, 18)
    return relay.concatenate([relay.abs(first), *others], axis=1)


SIDE_BY_SIDE = {"pool_size": (2, 2, 2), "padding": (0,) * 6}
BLOCKS = {
    "pieces": _volume(_joined(4, 14, 28)),
    "pieces, windows side by side": _volume(_joined(4, 6, 14), **SIDE_BY_SIDE),
    "pieces that are a result": _kept(),
    "pieces that are computed": _volume(_partly_computed()),
    "pieces of rows": _volume(
        relay.concatenate([var("p", 1, 3, 4, 3, 18), var("q", 1, 3, 4, 5, 18)], axis=3)
    ),
    "no padding": _volume(var("x", 1, 3, 5, 7, 17), padding=(0,) * 6),
    "padding behind": _volume(var("x", 1, 3, 4, 6, 34), padding=(0, 0, 0, 1, 1, 1)),
    "no window over planes": _volume(
        var("x", 1, 3, 2, 9, 112), pool_size=(1, 3, 3), strides=(1, 2, 2), padding=(0, 1, 1) * 2
    ),
    "rows and planes side by side": _volume(var("x", 1, 3, 4, 5, 23), strides=(1, 1, 2)),
    "chunks that look alike": relay.nn.max_pool1d(var("x", 1, 3, 1003), 3, 2, padding=(1, 1)),
    "one element at the end": relay.nn.max_pool2d(var("x", 1, 2, 5, 34), (2, 2), (2, 2)),
    "one element behind a chunk": relay.nn.max_pool1d(var("x", 1, 3, 130), 2, 2),
    "rows of two elements": relay.nn.max_pool2d(
        var("x", 1, 2, 5, 2), (3, 3), (2, 2), padding=(1, 1, 2, 2)
    ),
    "rows of three elements": relay.nn.max_pool2d(
        var("x", 1, 2, 5, 3), (3, 3), (2, 2), padding=(1,) * 4
    ),
    "a long window": relay.nn.max_pool1d(var("x", 1, 3, 70), 19, 2, padding=(9, 9)),
    "integers": relay.nn.max_pool2d(
        relay.var("x", shape=(1, 3, 9, 11), dtype="int32"), (3, 3), (2, 2), padding=(1,) * 4
    ),
    "shares of channels": _volume(var("x", 1, 23, 4, 14, 14)),
}
TARGETS = {"all lanes": resolve_target(TARGET), "eight lanes": eight_lanes()}


@pytest.mark.parametrize(
    ("case", "lanes"), few_fast_rows([(case, lanes) for case in BLOCKS for lanes in TARGETS])
)
def test_a_block_is_one_right_kernel(case: str, lanes: str) -> None:
    assert_scheduled(BLOCKS[case], "channel_pool", EXACT, target=TARGETS[lanes])


@pytest.mark.parametrize("case", few_fast(["pieces", "no window over planes"]))
def test_nothing_is_copied_or_masked(case: str) -> None:
    with concatenation_as_expression():
        func = schedule(unscheduled(BLOCKS[case]), TARGETS["all lanes"]).func
    found: list[object] = []

    def find(node: object) -> None:
        is_mask = isinstance(node, tir.Min) and "float" in node.dtype
        if is_mask or isinstance(node, tir.Allocate | tir.Select):
            found.append(node)

    tir.stmt_functor.post_order_visit(func.body, find)
    assert found == []


def test_each_vector_of_a_row_is_loaded_once() -> None:
    body = relay.nn.max_pool2d(var("x", 1, 3, 8, 28), (3, 3), (2, 2), padding=(1, 1, 0, 0))
    func = schedule(unscheduled(body, TARGETS["eight lanes"]), TARGETS["eight lanes"]).func
    loads: list[object] = []

    def find(node: object) -> None:
        if isinstance(node, tir.BufferLoad):
            loads.append(node)

    tir.stmt_functor.post_order_visit(func.body, find)
    # Three rows of 28 elements.
    assert len(loads) == 3 * 4


REFUSED = {
    "many rows": (
        _volume(var("x", 1, 2, 9, 9, 9), pool_size=(4, 9, 2), padding=(0,) * 6),
        "its window, of elements apart, is over more than 32 rows",
    ),
    "rows of one element": (
        relay.nn.max_pool2d(var("x", 1, 2, 6, 1), (3, 3), strides=(2, 2), padding=(1, 2, 1, 2)),
        "it moves over rows of one element",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_says_why_it_does_not_serve(case: str) -> None:
    body, reason = REFUSED[case]
    assert why_not(CHANNEL_POOL, describe(body)) == reason
