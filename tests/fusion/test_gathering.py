from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.depthwise_pairs import bias, blocked_image, depthwise, hard_swish, pointwise
from tests.fusion.planned import blocks
from tests.relay_modules import const, graph, var
from tvm_fusionx.fusion.gathering import MOST_OPERATORS, are_gathered
from tvm_fusionx.fusion.partition import Partition

CHANNELS, ROWS = 16, 24

image = blocked_image(CHANNELS, ROWS, ROWS)
scale = var("scale", 1, CHANNELS // 8, 1, 1, 8)


def _convolution(data: relay.Expr, kernel: int = 1) -> relay.Expr:
    return pointwise(data, CHANNELS, CHANNELS, kernel=kernel)


def _joined(*pieces: relay.Expr, axis: int = 1) -> relay.Expr:
    return relay.concatenate(pieces, axis)


def _enlarged(value: relay.Expr) -> relay.Expr:
    return relay.repeat(relay.repeat(value, 2, 2), 2, -2)


small = blocked_image(CHANNELS // 2, ROWS // 2, ROWS // 2, name="small")
half, other = (blocked_image(CHANNELS // 2, ROWS, ROWS, name=name) for name in ("half", "other"))

GATHERED: dict[str, Callable[[], relay.Expr]] = {
    "a gate": lambda: _convolution(image * scale),
    "a gate before a window": lambda: _convolution(image * scale, kernel=3),
    "a gate and an activation": lambda: _convolution(hard_swish(image * scale)),
    "a gate and what follows": lambda: relay.nn.relu(_convolution(image * scale) + bias(CHANNELS)),
    "a gate on a sum": lambda: _convolution(relay.add(image * scale, const(1, 2, 1, 1, 8))),
    "pieces": lambda: _convolution(_joined(half, other)),
    "pieces before a window": lambda: _convolution(_joined(half, other), kernel=3),
    "an enlarged piece": lambda: _convolution(_joined(_enlarged(small), other)),
    "an enlarged image": lambda: _convolution(_enlarged(_joined(small, small))),
    "rows put together": lambda: _convolution(_joined(image, image, axis=2)),
    "pieces and a gate": lambda: _convolution(_joined(half, other) * scale),
}

APART: dict[str, Callable[[], relay.Expr]] = {
    "an activation without a gate": lambda: _convolution(relay.nn.relu(image)),
    "an activation before the gate": lambda: _convolution(relay.nn.relu(image) * scale),
    "an expensive function": lambda: _convolution(relay.tanh(image * scale)),
    "a convolution that gathers nothing": lambda: depthwise(image * scale, CHANNELS),
    "a piece that is computed": lambda: _convolution(_joined(relay.nn.relu(half), other)),
    "pieces before a depthwise window": lambda: depthwise(_joined(half, other), CHANNELS),
    "chunks put together": lambda: pointwise(
        _joined(
            *(blocked_image(CHANNELS, ROWS, ROWS, block=4, name=name) for name in "ab"), axis=4
        ),
        CHANNELS * 2,
        CHANNELS,
    ),
    "more than a gate": lambda: _convolution(relay.nn.relu(hard_swish(image * scale))),
}


@pytest.mark.parametrize("kind", GATHERED)
def test_what_is_gathered_is_one_block_with_the_convolution_after_it(kind: str) -> None:
    assert len(blocks(GATHERED[kind]())) == 1


@pytest.mark.parametrize("kind", APART)
def test_other_work_before_a_convolution_stays_outside(kind: str) -> None:
    assert len(blocks(APART[kind]())) == 2


def test_a_gate_with_another_reader_stays_outside() -> None:
    gated = image * scale
    assert len(blocks(_convolution(gated), relay.nn.relu(gated))) == 2


def test_an_activation_stays_with_the_convolution_that_it_follows() -> None:
    first = relay.nn.relu(depthwise(image, CHANNELS) + bias(CHANNELS))
    pooled = relay.nn.global_avg_pool2d(first, layout="NCHW8c")
    made = blocks(_convolution(first * pooled))
    assert ("nn.contrib_depthwise_conv2d_NCHWc", "add", "nn.relu") in made
    assert ("multiply", "nn.contrib_conv2d_NCHWc") in made


def test_nothing_and_too_much_are_not_gathered() -> None:
    value = image * scale
    for _ in range(MOST_OPERATORS):
        value = value + relay.const(1.0)
    *before, window = Partition(graph(_convolution(value))).calls
    assert not are_gathered((), window)
    assert not are_gathered(before, window)
    assert are_gathered(before[:MOST_OPERATORS], window)


def test_a_piece_with_another_reader_is_gathered_nevertheless() -> None:
    first = relay.nn.relu(_convolution(image))
    second = relay.nn.relu(_convolution(first, kernel=3))
    joined = pointwise(_joined(first, second), CHANNELS * 2, CHANNELS)
    assert blocks(joined)[-1] == ("concatenate", "nn.contrib_conv2d_NCHWc")


def test_an_epilogue_stays_with_its_convolution_when_its_result_is_a_piece() -> None:
    images = (image, blocked_image(CHANNELS, ROWS, ROWS, name="another"))
    pieces = [relay.nn.leaky_relu(_convolution(each) + bias(CHANNELS)) for each in images]
    joined = pointwise(_joined(*pieces), CHANNELS * 2, CHANNELS)
    epilogue = ("nn.contrib_conv2d_NCHWc", "add", "nn.leaky_relu")
    assert blocks(joined) == [epilogue, epilogue, ("concatenate", "nn.contrib_conv2d_NCHWc")]
