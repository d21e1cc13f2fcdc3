from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.depthwise_pairs import bias, blocked_image, depthwise, hard_swish, pointwise
from tests.fusion.planned import blocks
from tests.relay_modules import const, graph, var
from tests.schedules.winograd_convolution import filtered, frames_beside
from tvm_fusionx.frontend.converters.activations import tanh_of_softplus
from tvm_fusionx.fusion import Limits, PlannerOptions
from tvm_fusionx.fusion.gathering import MOST_OPERATORS, are_gathered, is_channel_pool, moves_by_one
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

FRAMES = 4
video = var("video", FRAMES, CHANNELS // 8, ROWS, ROWS, 8)


def _filtered(data: relay.Expr) -> relay.Expr:
    shape = (FRAMES, 3 * CHANNELS, ROWS, ROWS)
    return filtered(shape, CHANNELS, (1, 1, 1, 1), data=data)


def _largest(value: relay.Expr) -> relay.Expr:
    return relay.maximum(
        *(relay.strided_slice(value, [i], [FRAMES], [2], axes=[0]) for i in range(2))
    )


def _side_by_side(value: relay.Expr, size: int = 2) -> relay.Expr:
    return relay.nn.max_pool2d(value, (size, size), (2, 2), padding=(1, 1), layout="NCHW8c")


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
    "frames": lambda: pointwise(frames_beside(video, FRAMES), 3 * CHANNELS, CHANNELS, kernel=3),
    "frames before minimal filtering": lambda: _filtered(frames_beside(video, FRAMES)),
    "the largest of neighbours": lambda: _side_by_side(_largest(video)),
}

APART: dict[str, Callable[[], relay.Expr]] = {
    "an activation without a gate": lambda: _convolution(relay.nn.relu(image)),
    "an activation before the gate": lambda: _convolution(relay.nn.relu(image) * scale),
    "an expensive function": lambda: _convolution(relay.tanh(image * scale)),
    "a convolution that gathers nothing": lambda: depthwise(image * scale, CHANNELS),
    "a piece that is computed": lambda: _convolution(_joined(relay.nn.relu(half), other)),
    "pieces before a depthwise window": lambda: depthwise(_joined(half, other), CHANNELS),
    "pieces before minimal filtering": lambda: _filtered(
        _joined(*(blocked_image(CHANNELS, ROWS, ROWS, name=name) for name in "abc"))
    ),
    "rows padded before minimal filtering": lambda: _filtered(
        relay.nn.pad(var("x", 1, 6, ROWS, ROWS - 1, 8), (*[(0, 0)] * 3, (0, 1), (0, 0)))
    ),
    "images padded by ones before minimal filtering": lambda: _filtered(
        relay.nn.pad(var("x", 2, 6, ROWS, ROWS, 8), ((1, 0), *[(0, 0)] * 4), relay.const(1.0))
    ),
    "an activation before a pool": lambda: _side_by_side(relay.nn.relu(video)),
    "neighbours before windows that overlap": lambda: _side_by_side(_largest(video), size=3),
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


def _pool(value: relay.Expr, *, step: int = 1) -> relay.Expr:
    return relay.nn.max_pool3d(value, (3, 3, 3), strides=(step,) * 3, padding=(1,) * 6)


def _volumes(axis: int = 1) -> relay.Expr:
    return _joined(*(var(name, 1, 16, 8, 16, 16) for name in "ab"), axis=axis)


@pytest.mark.parametrize("step", [1, 2])
def test_pieces_before_a_pool_are_put_together_channel_by_channel(step: int) -> None:
    assert blocks(_pool(_volumes(), step=step)) == [("concatenate", "nn.max_pool3d")]
    assert len(blocks(_pool(_volumes(axis=2), step=step))) == 2


def test_work_behind_a_pool_stays_outside_where_kernels_pool_channels() -> None:
    behind = relay.nn.relu(_pool(var("x", 1, 16, 8, 16, 16)))
    assert len(blocks(behind)) == 2
    gpu = PlannerOptions(Limits(results_before_pools=False))
    assert len(blocks(behind, options=gpu)) == 1


def test_work_before_a_pool_stays_outside() -> None:
    assert len(blocks(_pool(relay.nn.relu(_volumes())))) == 2


def test_pieces_before_a_pool_may_be_a_result_as_well() -> None:
    joined = _volumes()
    assert len(blocks(joined, _pool(joined))) == 1
    apart = PlannerOptions(Limits(results_before_pools=False))
    assert len(blocks(joined, _pool(joined), options=apart)) == 2


def test_pieces_of_which_a_pool_leaves_some_out_are_a_kernel_of_their_own() -> None:
    joined = _volumes()
    skipped = relay.nn.max_pool3d(joined, (1, 1, 1), strides=(2, 1, 1), padding=(4, 0, 0, 4, 0, 0))
    assert len(blocks(joined, skipped)) == 2


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


def test_an_epilogue_of_many_operators_stays_with_its_convolution() -> None:
    def mish(value: relay.Expr) -> relay.Expr:
        return value * tanh_of_softplus(value, "float32")

    images = (image, blocked_image(CHANNELS, ROWS, ROWS, name="another"))
    pieces = [mish(_convolution(each) + bias(CHANNELS)) for each in images]
    made = blocks(pointwise(_joined(*pieces), CHANNELS * 2, CHANNELS))
    assert [block[0] for block in made] == ["nn.contrib_conv2d_NCHWc"] * 2 + ["concatenate"]


def test_what_follows_cut_channels_stays_with_the_convolution_before_a_concatenation() -> None:
    def head(data: relay.Expr) -> relay.Expr:
        whole = relay.layout_transform(pointwise(data, CHANNELS, CHANNELS), "NCHW8c", "NCHW")
        cut = relay.strided_slice(whole, [0], [CHANNELS - 3], axes=[1])
        biased = cut + const(CHANNELS - 3, 1, 1)
        return relay.reshape(relay.transpose(biased, (0, 2, 3, 1)), (1, -1, CHANNELS - 3))

    images = (image, blocked_image(CHANNELS, ROWS, ROWS, name="another"))
    heads = relay.sigmoid(relay.concatenate([head(each) for each in images], 1))
    product = ("nn.contrib_conv2d_NCHWc", "layout_transform", "strided_slice", "add", "transpose")
    assert blocks(heads)[:3:2] == [product, product]


def test_work_stays_out_of_movements_that_a_window_gathers() -> None:
    pooled = relay.nn.max_pool2d(video, (3, 3), (1, 1), padding=(1, 1), layout="NCHW8c")
    made = blocks(_filtered(frames_beside(relay.nn.relu(pooled), FRAMES)))
    assert made[0] == ("nn.max_pool2d", "nn.relu")
    assert len(made) == 2


def test_work_joins_movements_with_several_windows() -> None:
    frames = frames_beside(relay.nn.relu(video), FRAMES)
    assert len(blocks(_filtered(frames), _side_by_side(frames))) == 3


def test_a_pool_over_blocked_channels_is_no_channel_pool() -> None:
    *_, plain = Partition(graph(_pool(_volumes()))).calls
    *_, blocked = Partition(graph(relay.nn.max_pool2d(image, (2, 2), layout="NCHW8c"))).calls
    assert is_channel_pool(plain)
    assert moves_by_one(plain)
    assert not is_channel_pool(blocked)
