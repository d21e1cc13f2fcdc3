"""Convolutions in NCHWc: packed weights, and the reasons to leave one as it is."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.layout.blocked_convolution import pack_weights, why_not_blocked
from tvm_fusionx.layout.convolution import pack_convolutions
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target


def test_weights_are_packed_by_chunks_of_both_channels() -> None:
    array = np.arange(4 * 6 * 3 * 2).reshape(4, 6, 3, 2)
    packed = pack_weights(array, 3, 2)
    assert packed.shape == (2, 2, 3, 2, 3, 2)
    assert packed[1, 0, 2, 1, 2, 0] == array[2, 2, 2, 1]


X = var("x", 1, 4, 6, 6)
REFUSED = {
    "its weights are not constant": relay.nn.conv2d(X, var("w", 8, 4, 1, 1)),
    "its layouts are NHWC and HWIO": relay.nn.conv2d(
        X, const(1, 1, 6, 8), data_layout="NHWC", kernel_layout="HWIO"
    ),
    "it makes several channels of each one": relay.nn.conv2d(
        X, const(8, 1, 3, 3), groups=4, channels=8, kernel_size=(3, 3)
    ),
    "its data is int8": relay.nn.conv2d(
        var("x", 1, 4, 6, 6, dtype="int8"), const(8, 4, 1, 1, dtype="int8"), out_dtype="int32"
    ),
    "its result's layout is NHWC": relay.nn.conv2d(X, const(8, 4, 1, 1), out_layout="NHWC"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_a_convolution_that_stays_says_why(reason: str) -> None:
    assert why_not_blocked(graph(REFUSED[reason]).calls()[0]) == reason


@pytest.mark.parametrize(
    ("target", "channels", "layout"),
    [
        ("sapphirerapids", 64, "OIHW16i16o4i"),
        ("sapphirerapids -mattr=-amx-int8", 64, "OIHW4i16o4i"),
        ("cascadelake", 64, "OIHW4i16o4i"),
        # Too shallow for tiles.
        ("sapphirerapids", 4, "OIHW1i16o4i"),
    ],
)
def test_weights_of_bytes_have_one_chunk_of_inputs_for_tiles(
    target: str, channels: int, layout: str
) -> None:
    weights = relay.const(np.zeros((32, channels, 3, 3), "int8"))
    data = var("x", 1, channels, 9, 11, dtype="uint8")
    packed = graph(relay.nn.conv2d(data, weights, padding=(1, 1, 1, 1), out_dtype="int32"))
    cpu = describe_cpu(resolve_target(f"llvm -mtriple=x86_64-linux-gnu -mcpu={target}"))
    assert pack_convolutions(packed, cpu) == 1
    (node,) = (each for each in packed.calls() if each.op == "nn.contrib_conv2d_NCHWc")
    assert node.attrs["kernel_layout"] == layout
