"""Pooling over unblocked channels: the template serves it, and the numbers are right."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import EXACT, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import assert_scheduled, describe
from tests.schedules.matching import why_not
from tvm_fusionx.schedules.channel_pools.template import CHANNEL_POOL


def _volume(value: relay.Expr, **window: object) -> relay.Expr:
    return relay.nn.max_pool3d(value, **{"pool_size": (3, 3, 3), "padding": (1,) * 6, **window})


def _pieces() -> relay.Expr:
    sizes = (2, 3, 1)
    return relay.concatenate(
        [var(f"p{place}", 1, size, 4, 7, 18) for place, size in enumerate(sizes)], axis=1
    )


def _kept() -> relay.Expr:
    joined = _pieces()
    return relay.Tuple([joined, _volume(joined)])


BLOCKS = {
    "volume": _volume(var("x", 2, 3, 4, 5, 14)),
    "volume without padding": _volume(var("x", 1, 3, 4, 5, 16), padding=(0,) * 6),
    "rows apart": _volume(var("x", 1, 3, 5, 7, 19), strides=(2, 2, 1)),
    "elements apart": _volume(var("x", 1, 3, 5, 7, 19), strides=(1, 2, 2)),
    "an image's elements apart": relay.nn.max_pool2d(
        var("x", 1, 5, 9, 70), (3, 3), strides=(2, 2), padding=(1, 1, 0, 0)
    ),
    "windows side by side": relay.nn.max_pool2d(var("x", 1, 5, 8, 36), (2, 2), strides=(2, 2)),
    "more room than data": relay.nn.max_pool2d(
        var("x", 1, 2, 6, 5), (4, 4), strides=(2, 2), padding=(3, 3, 3, 3)
    ),
    "a sequence apart": relay.nn.max_pool1d(var("x", 2, 5, 37), 3, strides=2, padding=(1, 1)),
    "a large window": _volume(var("x", 1, 2, 6, 6, 18), pool_size=(3, 3, 5), padding=(1, 1, 2) * 2),
    "image": relay.nn.max_pool2d(var("x", 1, 5, 9, 24), (3, 3), padding=(1,) * 4),
    "after work on each element": _volume(relay.abs(var("x", 1, 3, 4, 5, 14))),
    "after a transposition": _volume(relay.transpose(var("x", 1, 3, 4, 14, 5), (0, 1, 2, 4, 3))),
    "a sequence": relay.nn.max_pool1d(var("x", 2, 5, 37), 4, padding=(1, 2)),
    "rows that become longer": relay.nn.max_pool2d(
        var("x", 1, 3, 7, 9), (6, 6), padding=(2, 5, 3, 5)
    ),
    "a few pixels": _volume(var("x", 1, 5, 2, 2, 3)),
    "integers": relay.nn.max_pool2d(
        relay.var("x", shape=(1, 3, 9, 11), dtype="int32"), (3, 3), padding=(1,) * 4
    ),
    "shares of channels": _volume(var("x", 1, 23, 3, 14, 14)),
    "pieces": _volume(_pieces()),
    "pieces that are a result": _kept(),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS))
def test_a_block_around_a_pooling_is_one_right_kernel(case: str) -> None:
    assert_scheduled(BLOCKS[case], "channel_pool", EXACT)


@pytest.mark.slow
def test_pieces_that_are_a_result_are_one_right_kernel() -> None:
    assert_scheduled(_kept(), "channel_pool", EXACT)


REFUSED = {
    "a sum of products": (
        relay.nn.conv2d(var("x", 1, 4, 6, 6), var("w", 4, 4, 3, 3)),
        "its reduction sums products",
    ),
    "work after the window": (
        relay.nn.relu(_volume(var("x", 1, 3, 4, 5, 14))),
        "work follows the window",
    ),
    "windows far apart": (
        _volume(var("x", 1, 3, 4, 5, 14), strides=(1, 1, 3)),
        "its window moves by more than 2 elements",
    ),
    "channels that are summed": (
        relay.sum(var("x", 1, 3, 4), axis=1),
        "its window does not move over all axes but image and channel",
    ),
    "chunks of channels": (
        relay.nn.max_pool2d(var("x", 1, 2, 6, 6, 8), (2, 2), layout="NCHW8c"),
        "its window does not move over all axes but image and channel",
    ),
    "a sum": (
        relay.nn.avg_pool2d(var("x", 1, 2, 6, 6), (2, 2), count_include_pad=True),
        "work follows the window",
    ),
    "the smallest element": (
        relay.min(var("x", 2, 3, 4), axis=2, keepdims=True),
        "it does not take the largest element",
    ),
    "windows that skip elements": (
        relay.nn.max_pool2d(var("x", 1, 2, 6, 6), (2, 2), dilation=(2, 1)),
        "its windows are not next elements, a step apart",
    ),
    "a long window": (
        relay.nn.max_pool1d(var("x", 1, 2, 70), 33),
        "its window is longer than 32 elements",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_says_why_it_does_not_serve(case: str) -> None:
    body, reason = REFUSED[case]
    assert why_not(CHANNEL_POOL, describe(body)) == reason
