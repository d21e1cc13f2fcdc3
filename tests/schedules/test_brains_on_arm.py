"""Products of bfloat16 by an instruction for matrices: run under emulation, right in every bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.odd_rounding import matrix_product
from tests.sampled import few_fast, few_fast_rows
from tests.schedules.arm_board import ARMV86, Board, emulated_arm, target_with
from tvm_fusionx.code_cache.setting import kernel_cache

BRAINS = f"{ARMV86},+bf16"
BRAIN = "bfloat16"

# Rows, terms and columns: tiles that rows fill or not, an odd row, one row, columns of one vector.
SHAPES = [(16, 32, 24), (13, 20, 16), (1, 64, 40), (3, 8, 4), (64, 96, 48)]


class Layer(NamedTuple):
    """A convolution over chunks of four channels."""

    inputs: int
    outputs: int
    side: int
    taps: int = 1
    stride: int = 1


# A pixel, in tiles moved back and of odd columns; windows that minimal filtering would serve, at
# stride 2, and of an odd number of columns.
LAYERS = [Layer(16, 24, 14), Layer(8, 12, 9, 3), Layer(24, 8, 7), Layer(8, 16, 11, 3, 2)]


@pytest.fixture(scope="module", name="board")
def fixture_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with emulated_arm(tmp_path_factory.mktemp("arm")) as board:
        yield board


def _brains(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.standard_normal(shape).astype(ml_dtypes.bfloat16)


def _constant(array: np.ndarray) -> relay.Constant:
    return relay.Constant(tvm.nd.array(array))


def _run(board: Board, main: relay.Function, data: np.ndarray) -> np.ndarray:
    """Return the numbers that a function gives on the board, as bfloat16."""
    target = target_with(board.bench.device, BRAINS)
    with kernel_cache(use=False):
        library = fx.build(tvm.IRModule.from_expr(main), target)
    assert "bfmmla" in library.get_lib().get_source("asm")
    (found,) = board.run(library, {"x": data})
    return found.view(ml_dtypes.bfloat16)


@pytest.mark.parametrize(("rows", "terms", "columns"), few_fast_rows(SHAPES))
def test_matrices_are_multiplied_as_the_instruction_does(
    board: Board, rows: int, terms: int, columns: int
) -> None:
    generator = np.random.default_rng(0)
    data, weights = _brains(generator, rows, terms), _brains(generator, columns, terms)
    bias = _brains(generator, columns)
    x = relay.var("x", shape=data.shape, dtype=BRAIN)
    product = relay.nn.dense(x, _constant(weights), out_dtype=BRAIN)
    main = relay.Function([x], relay.nn.relu(relay.add(product, _constant(bias))))
    sums = matrix_product(data, weights) + bias.astype("float32")
    expected = np.maximum(sums, 0).astype(ml_dtypes.bfloat16)
    assert np.array_equal(_run(board, main, data), expected)


@pytest.mark.parametrize("layer", few_fast(LAYERS, fast=2))
def test_windows_are_multiplied_as_the_instruction_does(board: Board, layer: Layer) -> None:
    generator = np.random.default_rng(0)
    inputs, outputs = layer.inputs // 4, layer.outputs // 4
    data = _brains(generator, 1, inputs, layer.side, layer.side, 4)
    weights = _brains(generator, outputs, inputs, layer.taps, layer.taps, 4, 4)
    padding = (layer.taps // 2,) * 4
    x = relay.var("x", shape=data.shape, dtype=BRAIN)
    sums = relay.nn.contrib_conv2d_nchwc(
        x, _constant(weights), (layer.stride,) * 2, padding, (1, 1), 1, layer.outputs,
        (layer.taps, layer.taps), "NCHW4c", "OIHW4i4o", "NCHW4c", BRAIN,
    )  # fmt: skip
    found = _run(board, relay.Function([x], relay.nn.relu(sums)), data)
    assert np.array_equal(found, _window(data, weights, layer))


def _window(data: np.ndarray, weights: np.ndarray, layer: Layer) -> np.ndarray:
    """Return a window's result after a ReLU: terms in the order of the kernel, chunk by chunk."""
    border = layer.taps // 2
    padded = np.pad(data, ((0, 0), (0, 0), (border, border), (border, border), (0, 0)))
    side = (layer.side - 1) // layer.stride + 1
    last = (side - 1) * layer.stride + 1
    taps = [
        padded[0, :, row : row + last : layer.stride, column : column + last : layer.stride]
        for row in range(layer.taps)
        for column in range(layer.taps)
    ]
    # [chunks, taps, rows, columns, 4]
    terms = np.stack(taps, 1).transpose(2, 3, 0, 1, 4).reshape(side * side, -1)
    columns = weights.transpose(0, 5, 1, 2, 3, 4).reshape(layer.outputs, -1)
    assert terms.shape[1] == layer.inputs * math.prod((layer.taps,) * 2)
    sums = np.maximum(matrix_product(terms, columns), 0).astype(ml_dtypes.bfloat16)
    return sums.reshape(side, side, -1, 4).transpose(2, 0, 1, 3)[None]
