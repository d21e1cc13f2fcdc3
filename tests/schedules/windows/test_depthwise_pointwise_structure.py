"""Pairs of windows are found, and what looks like one is not."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.depthwise_pairs import blocked_image, depthwise, pair, pointwise
from tests.schedules.blocked_blocks import describe
from tvm_fusionx.schedules.windows.depthwise_pointwise_structure import Pair, find_pair


def test_a_pair_is_described() -> None:
    found = find_pair(describe(pair(16, (9, 12), 24, stride=2)))
    assert isinstance(found, Pair)
    assert found.in_shape == (1, 2, 9, 12, 8)
    assert found.depthwise.out_shape == (1, 2, 5, 6, 8)
    assert found.pointwise.out_shape == (1, 3, 5, 6, 8)
    assert found.padding == (1, 1)
    assert found.pad is not None
    assert found.middle != found.depthwise.stage.name


def test_a_window_may_read_its_data_as_it_is() -> None:
    found = find_pair(describe(pointwise(depthwise(blocked_image(8, 5, 5), 8, padding=0), 8, 8)))
    assert isinstance(found, Pair)
    assert (found.pad, found.padding) == (None, (0, 0))
    assert found.middle == found.depthwise.stage.name


NOT_SERVED = {
    "one convolution": (depthwise(blocked_image(8, 5, 5), 8), "1 reductions, not two"),
    "two depthwise": (
        depthwise(depthwise(blocked_image(8, 5, 5), 8), 8),
        "no depthwise and then a dense window",
    ),
    "a wide second window": (
        pointwise(depthwise(blocked_image(8, 5, 5), 8), 8, 8, kernel=3),
        "reads more than a pixel",
    ),
    "two of another input": (
        depthwise(blocked_image(8, 5, 5), 8) + pointwise(blocked_image(8, 5, 5, name="y"), 8, 8),
        "does not read the first",
    ),
    "work before": (
        pointwise(depthwise(relay.exp(blocked_image(8, 5, 5)), 8, padding=0), 8, 8),
        "no padding by zeros",
    ),
}


@pytest.mark.parametrize("case", NOT_SERVED)
def test_no_pair(case: str) -> None:
    body, reason = NOT_SERVED[case]
    found = find_pair(describe(body))
    assert isinstance(found, str)
    assert reason in found
