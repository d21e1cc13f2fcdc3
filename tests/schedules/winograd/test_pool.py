"""Which reductions behind a convolution by minimal filtering are pools over its tiles."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relay

from tests.schedules.blocked_blocks import describe
from tests.schedules.winograd_convolution import filtered
from tvm_fusionx.expressions.winograd import STAGE_PRODUCT
from tvm_fusionx.schedules.winograd.pool import Pool, find_pool


def _found(y: Any, tile: int = 4) -> Pool | str | None:
    return find_pool(describe(y), STAGE_PRODUCT, tile)


def _max_pool(y: Any, size: tuple[int, int], steps: tuple[int, int]) -> Any:
    return relay.nn.max_pool2d(y, size, steps, layout="NCHW8c")


convolution = filtered((1, 8, 8, 8), 8, (1, 1, 1, 1))


def test_without_another_reduction_there_is_no_pool() -> None:
    assert _found(relay.nn.relu(convolution)) is None


@pytest.mark.parametrize("window", [(2, 2), (1, 4), (4, 2)])
def test_windows_side_by_side_are_a_pool(window: tuple[int, int]) -> None:
    found = _found(relay.nn.relu(_max_pool(convolution, window, window)))
    assert isinstance(found, Pool)
    assert (found.stage, found.window) == ("pool_max", window)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (_max_pool(convolution, (3, 3), (2, 2)), "side by side"),
        (_max_pool(convolution, (3, 3), (3, 3)), "cross tiles"),
        (relay.sum(convolution, [2, 3], keepdims=True), "side by side"),
        (relay.prod(convolution, [2, 3]), "side by side"),
        (relay.sum(_max_pool(convolution, (2, 2), (2, 2)), 4), "several reductions"),
    ],
)
def test_anything_else_is_refused(body: Any, reason: str) -> None:
    found = _found(body)
    assert isinstance(found, str)
    assert reason in found


def test_windows_as_large_as_a_tile_fit_it_and_no_smaller_one() -> None:
    body = _max_pool(convolution, (4, 4), (4, 4))
    assert isinstance(_found(body, 4), Pool)
    assert "cross tiles of 2" in str(_found(body, 2))
