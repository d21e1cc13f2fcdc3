"""Which convolutions are computed by minimal filtering, and why the others are not."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.ecg import Graph
from tvm_fusionx.layout import pack_convolutions
from tvm_fusionx.layout.blocked_winograd import estimated_gain, why_not_winograd
from tvm_fusionx.layout.winograd import WINOGRAD
from tvm_fusionx.schedules.cpu import Cpu


def _conv(channels: int, size: int, outputs: int, kernel: int = 3, **attrs: object) -> Graph:
    weights = const(outputs, channels // int(attrs.get("groups", 1)), kernel, kernel)  # type: ignore[call-overload]
    data = var("x", 1, channels, size, size)
    return graph(relay.nn.conv2d(data, weights, padding=(kernel // 2,) * 4, **attrs))


@pytest.mark.parametrize(("channels", "size"), [(64, 56), (128, 28), (256, 14)])
def test_the_wide_layers_of_a_resnet_gain(channels: int, size: int) -> None:
    made = _conv(channels, size, channels)
    assert why_not_winograd(made.calls()[0]) is None
    assert pack_convolutions(made, Cpu(lanes=8, registers=16, cores=2)) == 1
    assert [node.op for node in made.calls()].count(WINOGRAD) == 1


def test_layers_with_more_weights_than_pixels_stay_direct() -> None:
    node = _conv(512, 7, 512).calls()[0]
    assert estimated_gain(node) < 1.3
    assert "it would gain" in str(why_not_winograd(node))


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (_conv(64, 28, 64, kernel=1), "its window is (1, 1)"),
        (_conv(64, 28, 64, strides=(2, 2)), "it is strided, dilated or grouped"),
        (_conv(64, 28, 64, groups=2), "it is strided, dilated or grouped"),
        (_conv(3, 28, 8), "it would gain"),
    ],
)
def test_others_say_why(made: Graph, reason: str) -> None:
    assert str(why_not_winograd(made.calls()[0])).startswith(reason)
