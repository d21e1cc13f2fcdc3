from __future__ import annotations

from collections.abc import Callable

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg.flops import flops

x = var("x", 4, 8)
batch = var("batch", 2, 4, 8)
signal, image, volume = var("s", 1, 4, 9), var("i", 1, 4, 9, 9), var("v", 1, 4, 5, 5, 5)
channels_last = var("l", 1, 9, 9, 4)
blocked = var("b", 1, 2, 9, 9, 4)

# Each expected number is spelled out as (two a product) * results * products a result.
COUNTS: dict[str, tuple[Callable[[], relay.Expr], int]] = {
    "dense": (lambda: relay.nn.dense(x, const(6, 8)), 2 * (4 * 6) * 8),
    "matmul": (lambda: relay.nn.matmul(x, const(8, 6)), 2 * (4 * 6) * 8),
    "matmul of transposed": (
        lambda: relay.nn.matmul(x, const(4, 6), transpose_a=True),
        2 * (8 * 6) * 4,
    ),
    "batch_matmul": (lambda: relay.nn.batch_matmul(batch, const(2, 6, 8)), 2 * (2 * 4 * 6) * 8),
    "batch_matmul of transposed": (
        lambda: relay.nn.batch_matmul(batch, const(2, 4, 6), transpose_a=True, transpose_b=False),
        2 * (2 * 8 * 6) * 4,
    ),
    "conv1d": (lambda: relay.nn.conv1d(signal, const(6, 4, 3)), 2 * (6 * 7) * (4 * 3)),
    "conv2d": (lambda: relay.nn.conv2d(image, const(6, 4, 3, 3)), 2 * (6 * 7 * 7) * (4 * 9)),
    "conv2d with stride": (
        lambda: relay.nn.conv2d(image, const(6, 4, 3, 3), strides=2),
        2 * (6 * 4 * 4) * (4 * 9),
    ),
    "conv2d of groups": (
        lambda: relay.nn.conv2d(image, const(6, 2, 3, 3), groups=2),
        2 * (6 * 7 * 7) * (2 * 9),
    ),
    "depthwise": (
        lambda: relay.nn.conv2d(image, const(4, 1, 3, 3), groups=4, channels=4),
        2 * (4 * 7 * 7) * 9,
    ),
    "conv2d channels last": (
        lambda: relay.nn.conv2d(
            channels_last, const(3, 3, 4, 6), data_layout="NHWC", kernel_layout="HWIO"
        ),
        2 * (6 * 7 * 7) * (4 * 9),
    ),
    "depthwise channels last": (
        lambda: relay.nn.conv2d(
            channels_last,
            const(3, 3, 4, 1),
            groups=4,
            channels=4,
            data_layout="NHWC",
            kernel_layout="HWOI",
        ),
        2 * (4 * 7 * 7) * 9,
    ),
    "conv3d": (lambda: relay.nn.conv3d(volume, const(6, 4, 3, 3, 3)), 2 * (6 * 27) * (4 * 27)),
    "conv2d blocked": (
        lambda: relay.nn.contrib_conv2d_nchwc(
            blocked,
            const(3, 2, 3, 3, 4, 4),
            kernel_size=(3, 3),
            channels=12,
            data_layout="NCHW4c",
            kernel_layout="OIHW4i4o",
            out_layout="NCHW4c",
        ),
        2 * (12 * 7 * 7) * (8 * 9),
    ),
    "depthwise blocked": (
        lambda: relay.nn.contrib_depthwise_conv2d_nchwc(
            blocked,
            const(2, 1, 3, 3, 1, 4),
            kernel_size=(3, 3),
            channels=8,
            groups=8,
            data_layout="NCHW4c",
            kernel_layout="OIHW1i4o",
            out_layout="NCHW4c",
        ),
        2 * (8 * 7 * 7) * 9,
    ),
    # Each of the 4*9*9 inputs meets each of its channel's 6*2*2 weights.
    "conv2d_transpose": (
        lambda: relay.nn.conv2d_transpose(
            image, const(4, 6, 2, 2), channels=6, kernel_size=(2, 2), strides=(2, 2)
        ),
        2 * (4 * 9 * 9) * (6 * 2 * 2),
    ),
    "deformable": (
        lambda: relay.nn.deformable_conv2d(
            image, const(1, 18, 7, 7), const(6, 4, 3, 3), kernel_size=(3, 3), channels=6
        ),
        2 * (6 * 7 * 7) * (4 * 9),
    ),
    "softmax": (lambda: relay.nn.softmax(x), 5 * 4 * 8),
    "sum": (lambda: relay.sum(x, axis=1), 4 * 8),
    "pool": (lambda: relay.nn.max_pool2d(image, pool_size=(3, 3)), 4 * 9 * 9),
    "elementwise": (lambda: relay.tanh(x), 4 * 8),
    "broadcast": (lambda: relay.add(batch, x), 2 * 4 * 8),
    "reshape": (lambda: relay.reshape(x, (32,)), 0),
    "transpose": (lambda: relay.transpose(x), 0),
    "concatenate": (lambda: relay.concatenate([x, x], axis=0), 0),
}


@pytest.mark.parametrize("kind", COUNTS)
def test_counts_are_those_made_by_hand(kind: str) -> None:
    build, expected = COUNTS[kind]
    (node,) = graph(build()).calls()
    assert flops(node) == expected


def test_inputs_and_constants_cost_nothing() -> None:
    found = graph(x + const(4, 8))
    assert [flops(node) for node in found.topological() if not node.is_call] == [0, 0]
