"""Windows over halves by instructions that multiply them: run under emulation, every bit right."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.sampled import few_fast_rows
from tests.schedules.arm_board import ARMV82, Board, emulated_arm, target_with
from tvm_fusionx.code_cache.setting import kernel_cache

PRODUCTS = f"{ARMV82},+fp16fml"
CHANNELS = 8

# Side of the image, taps and stride: tiles moved back at an edge, and strips of several rows.
WINDOWS = [(13, 3, 1), (14, 3, 2), (9, 5, 1)]


@pytest.fixture(scope="module", name="board")
def fixture_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with emulated_arm(tmp_path_factory.mktemp("arm")) as board:
        yield board


@pytest.mark.parametrize(("side", "taps", "stride"), few_fast_rows(WINDOWS, fast=1))
def test_sums_are_those_of_float32(board: Board, side: int, taps: int, stride: int) -> None:
    generator = np.random.default_rng(0)
    chunks = CHANNELS // 4
    data = generator.standard_normal((1, chunks, side, side, 4)).astype("float16")
    weights = generator.standard_normal((chunks, 1, taps, taps, 1, 4)).astype("float16")
    x = relay.var("x", shape=data.shape, dtype="float16")
    made = relay.nn.contrib_depthwise_conv2d_nchwc(
        x, relay.const(weights), (stride,) * 2, (taps // 2,) * 4, (1, 1), CHANNELS, CHANNELS,
        (taps, taps), "NCHW4c", "OIHW1i4o", "NCHW4c", "float16",
    )  # fmt: skip
    target = target_with(board.bench.device, PRODUCTS)
    with kernel_cache(use=False):
        library = fx.build(tvm.IRModule.from_expr(relay.Function([x], made)), target)
    code = library.get_lib().get_source("asm")
    assert "fmlal\t" in code
    assert "fmlal2\t" in code
    (found,) = board.run(library, {"x": data})
    assert np.array_equal(found, _window(data, weights, stride))


def _window(data: np.ndarray, weights: np.ndarray, stride: int) -> np.ndarray:
    """Return a window's result: products are exact, and each sum is rounded to float32."""
    taps = weights.shape[2]
    border = taps // 2
    padded = np.pad(data, ((0, 0), (0, 0), (border, border), (border, border), (0, 0)))
    wide, tap_of = padded.astype("float32"), weights.astype("float32")
    side = (data.shape[2] - 1) // stride + 1
    last = (side - 1) * stride + 1
    sums = np.zeros((1, len(weights), side, side, 4), "float32")
    for row in range(taps):
        for column in range(taps):
            read = wide[:, :, row : row + last : stride, column : column + last : stride]
            sums += read * tap_of[:, 0, row, column, 0][None, :, None, None]
    return sums.astype("float16")
