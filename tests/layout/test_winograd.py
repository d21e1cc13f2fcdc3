"""Which convolutions are computed by minimal filtering, and why the others are not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import const, graph, module, operator_names, var
from tests.sampled import few_fast_rows
from tests.schedules.blocked_blocks import AVX512
from tests.schedules.winograd_convolution import direct
from tvm_fusionx.ecg import Graph
from tvm_fusionx.layout import pack_winograd
from tvm_fusionx.layout.blocked_convolution import pack_weights
from tvm_fusionx.layout.winograd import (
    WINOGRAD,
    best_problem,
    unpack_weights,
    why_not_faster,
    why_not_filtered,
)
from tvm_fusionx.passes import PackLayouts

SAME = (1, 1, 1, 1)
# The chunks of 8 of these layers fill its vectors, as those of 16 fill AVX-512's.
WHOLE = dataclasses.replace(AVX512, lanes=8)


def _conv(channels: int, size: int, outputs: int, **attrs: object) -> Graph:
    return graph(direct((1, channels, size, size), outputs, SAME, **attrs))


@pytest.mark.parametrize(
    ("channels", "size", "tile"),
    few_fast_rows([(64, 56, 4), (128, 28, 4), (256, 14, 4), (512, 7, 2)], 1),
)
def test_the_layers_of_a_resnet_gain(channels: int, size: int, tile: int) -> None:
    made = _conv(channels, size, channels)
    (node,) = made.calls()
    assert why_not_filtered(node) is None
    assert why_not_faster(node, WHOLE) is None
    best = best_problem(node, WHOLE)
    assert (best.filtering.tile, best.transforms_weights) == (tile, False)
    assert pack_winograd(made, WHOLE) == 1
    (changed,) = made.calls()
    assert (changed.op, changed.attrs["tile_size"]) == (WINOGRAD, tile)
    assert changed.operands[1].type.bytes == best.weight_bytes
    assert pack_winograd(made, WHOLE) == 0


def test_many_weights_for_few_tiles_are_left_to_the_kernel() -> None:
    made = _conv(768, 14, 768)
    (node,) = made.calls()
    assert best_problem(node, AVX512).transforms_weights
    packed = node.operands[1].type.bytes
    assert pack_winograd(made, AVX512) == 1
    (changed,) = made.calls()
    assert changed.operands[1].type.bytes == packed


def test_small_work_stays_direct() -> None:
    made = _conv(8, 6, 8)
    (node,) = made.calls()
    assert str(why_not_faster(node, AVX512)).startswith("it would gain ")
    assert pack_winograd(made, AVX512) == 0


def test_chunks_of_few_channels_stay_direct() -> None:
    made = graph(
        relay.nn.contrib_conv2d_nchwc(
            var("x", 1, 32, 28, 28, 1),
            const(4, 32, 3, 3, 1, 8),
            padding=SAME,
            channels=32,
            kernel_size=(3, 3),
            data_layout="NCHW1c",
            kernel_layout="OIHW1i8o",
            out_layout="NCHW8c",
        )
    )
    (node,) = made.calls()
    assert why_not_faster(node, AVX512) == "its chunks have 1 channels, fewer than 4"


@pytest.mark.parametrize(
    ("attrs", "reason"),
    [
        ({"strides": (2, 2)}, "its strides are (2, 2) and its dilation (1, 1)"),
        ({"dilation": (2, 2)}, "its strides are (1, 1) and its dilation (2, 2)"),
    ],
)
def test_other_steps_say_why(attrs: dict[str, object], reason: str) -> None:
    (node,) = _conv(64, 28, 64, **attrs).calls()
    assert why_not_filtered(node) == reason


def _general(weights: relay.Expr, kernel: int, dtype: str = "float32", groups: int = 1) -> Graph:
    return graph(
        relay.nn.contrib_conv2d_nchwc(
            var("x", 1, 4, 12, 12, 8, dtype=dtype),
            weights,
            padding=(kernel // 2,) * 4,
            channels=32,
            groups=groups,
            kernel_size=(kernel, kernel),
            data_layout="NCHW8c",
            kernel_layout="OIHW8i8o",
            out_layout="NCHW8c",
        )
    )


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (_general(const(4, 4, 1, 1, 8, 8), 1), "its window is (1, 1), not (3, 3)"),
        (_general(const(4, 2, 3, 3, 8, 8), 3, groups=2), "it has 2 groups"),
        (_general(var("w", 4, 4, 3, 3, 8, 8), 3), "its weights are not constant"),
        (
            _general(const(4, 4, 3, 3, 8, 8, dtype="float64"), 3, dtype="float64"),
            "its tensors are float64: only float32 has digits to spare",
        ),
    ],
)
def test_others_say_why(made: Graph, reason: str) -> None:
    (node,) = made.calls()
    assert why_not_filtered(node) == reason
    assert pack_winograd(made, AVX512) == 0


def test_weights_of_halves_are_transformed_in_float32() -> None:
    array = const(64, 64, 3, 3).data.numpy()
    made = graph(
        relay.nn.contrib_conv2d_nchwc(
            var("x", 1, 8, 56, 56, 8, dtype="float16"),
            relay.const(pack_weights(array, 8, 8).astype("float16")),
            padding=SAME,
            channels=64,
            kernel_size=(3, 3),
            data_layout="NCHW8c",
            kernel_layout="OIHW8i8o",
            out_layout="NCHW8c",
        )
    )
    (node,) = made.calls()
    assert why_not_filtered(node) is None
    assert pack_winograd(made, WHOLE) == 1
    (filtered,) = made.calls()
    assert [each.dtype for each in (*filtered.operands, filtered[0])] == [
        *("float16", "float32", "float16"),
    ]


def test_unpacking_undoes_packing() -> None:
    array = np.arange(16 * 8 * 9, dtype="float32").reshape(16, 8, 3, 3)
    np.testing.assert_array_equal(unpack_weights(pack_weights(array, 4, 8)), array)


@pytest.mark.parametrize("winograd", [True, False])
def test_the_pass_has_a_switch(winograd: bool) -> None:
    data = relay.nn.conv2d(var("x", 1, 32, 28, 28), const(32, 32, 1, 1), kernel_size=(1, 1))
    body = relay.nn.conv2d(data, const(32, 32, 3, 3), padding=SAME, kernel_size=(3, 3))
    target = tvm.target.Target("llvm -mcpu=znver4")
    packed = PackLayouts(target, winograd=winograd)(module(body))
    assert (WINOGRAD in operator_names(packed["main"].body)) is winograd
