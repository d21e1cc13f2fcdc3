"""Which channels can go, and which should."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph
from tests.rewrite.channels.dead_channels import CHANNELS, DEAD, features, pointwise
from tvm_fusionx.ecg import Graph
from tvm_fusionx.rewrite.channels.following import follow
from tvm_fusionx.rewrite.channels.liveness import can_go, should_go, zero_channels

C = CHANNELS


def going(found: Graph, chunk: int | None = None) -> list[int]:
    """Return how many channels of each product go: can go, without a chunk."""
    flows = follow(found)
    zero = zero_channels(flows)
    marks = can_go(flows, zero)
    if chunk is not None:
        marks = should_go(flows, zero, marks, chunk)
    return [int(marks[node[0]].sum()) for node in flows.products]


def _pair(zero: Iterable[int], unread: Iterable[int] = ()) -> Graph:
    return graph(pointwise(features(zero=zero), C, 4, zero=unread, axis=1))


def test_zero_and_unread_channels_can_go() -> None:
    assert going(_pair(())) == [0, 0]
    assert going(_pair(DEAD)) == [len(DEAD), 0]
    assert going(_pair(range(4), range(10, 12))) == [6, 0]


def test_what_only_dead_channels_read_is_dead_as_well() -> None:
    middle = pointwise(features(zero=()), C, C, zero=range(C - 1))
    # The last of the middle is read, but of the first layer it reads a half.
    middle = relay.Call(
        middle.op,
        [middle.args[0], relay.const(_half(middle.args[1].data.numpy()))],
        middle.attrs,
    )
    found = graph(pointwise(relay.nn.relu(middle), C, 4))
    assert going(found) == [C // 2, C - 1, 0]


def _half(kernel: np.ndarray) -> np.ndarray:
    kernel = kernel.copy()
    kernel[:, : C // 2] = 0
    return kernel


def test_a_sum_with_one_that_lives_keeps_both() -> None:
    first, second = features(zero=DEAD), features(zero=(), seed=2)
    assert going(graph(pointwise(first + second, C, 4))) == [0, 0, 0]


def test_a_second_reader_keeps_what_the_first_does_not_read() -> None:
    layer = features(zero=())
    one = pointwise(layer, C, 4, zero=range(8), axis=1)
    other = pointwise(layer, C, 4, zero=range(4, 12), axis=1, seed=2)
    assert going(graph(one + other)) == [4, 0, 0]


def test_zero_channels_of_values_in_between() -> None:
    found = _pair(DEAD)
    flows = follow(found)
    zero = zero_channels(flows)
    counts = [int(zero[node[0]].sum()) for node in flows.of]
    # The convolution's, with its bias, after the activation; nothing of the last.
    assert counts == [len(DEAD)] * 3 + [0]


@pytest.mark.parametrize(
    ("dead", "chunk", "expected"),
    [
        (16, 16, 16),
        (15, 16, 0),
        (15, 8, 8),
        (7, 8, 0),
        (31, 8, 24),
        (32, 8, 24),
        (32, 16, 16),
        (3, 4, 0),
        (5, 4, 4),
        (5, 1, 5),
        (32, 1, 31),
    ],
)
def test_whole_chunks_go_and_one_stays(dead: int, chunk: int, expected: int) -> None:
    assert going(_pair(range(dead)), chunk) == [expected, 0]


def test_the_chunk_of_channels_that_it_does_not_divide_is_smaller() -> None:
    layer = relay.nn.relu(pointwise(features(zero=()), C, 12, zero=range(5)))
    # Of twelve channels four are computed at once.
    assert going(graph(pointwise(layer, 12, 4)), 16)[1] == 4
    layer = relay.nn.relu(pointwise(features(zero=()), C, 21, zero=range(5)))
    assert going(graph(pointwise(layer, 21, 4)), 16)[1] == 5


def test_what_is_tied_fills_its_chunks_together() -> None:
    """Both layers of a sum keep the same channels, though each could do without others."""
    first = features(zero=range(10), seed=1)
    second = features(zero=range(10), seed=2)
    joined = relay.concatenate([first + second, first], axis=1)
    assert going(graph(pointwise(joined, 2 * C, 4)), 8) == [8, 8, 0]


def test_each_part_keeps_a_channel() -> None:
    parts = relay.split(features(zero=range(16)), 2, axis=1)
    found = graph(pointwise(parts[0], 16, 4) + pointwise(parts[1], 16, 4, seed=2))
    assert going(found, 1) == [15, 0, 0]
