"""Products of integers on Arm, by each of its instructions: run under emulation, right."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.devices.emulated_board import emulated_boards
from tests.quantized_models import Layers, build_on_integers, meaning, step_of_last
from tests.sampled import few_fast_rows
from tests.schedules.arm_board import ARMV82, ARMV86, Board, target_with
from tvm_fusionx.frontend.from_onnx import from_onnx

# Of quantized results, a step apart at most where two numbers are rounded otherwise, and how many.
HALF_A_STEP = 0.5
MOST_OFF = 0.01


@pytest.fixture(scope="module", name="board")
def fixture_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with emulated_boards() as emulation:
        board = Board(emulation.device, tmp_path_factory.mktemp("arm"))
        with board.bench:
            yield board


def _convolutions() -> tuple[Layers, str]:
    """Return rows of 11 pixels, which no pairs fill, and strides that leave pixels apart."""
    layers = Layers(1, 16, 7, 11)
    y = layers.add("Relu", layers.conv("x", 24, 16, 3))
    y = layers.add("Relu", layers.conv(y, 16, 24, 1))
    return layers, layers.conv(y, 32, 16, 3, strides=[2, 2])


def _matrices() -> tuple[Layers, str]:
    """Return 13 rows, an odd number."""
    layers = Layers(13, 24)
    y = layers.add("Relu", layers.add("MatMul", "x", layers.weights(24, 40)))
    return layers, layers.add("MatMul", y, layers.weights(40, 16))


def _image() -> tuple[Layers, str]:
    """Return an image of three channels, which zeros fill up."""
    layers = Layers(1, 3, 9, 8)
    return layers, layers.conv("x", 16, 3, 3, strides=[2, 2])


QUANTIZED = {"convolutions": _convolutions, "matrices": _matrices, "an image": _image}
# By feature, what multiplies bytes.
INSTRUCTIONS = {ARMV82: "sdot", ARMV86: "smmla"}


@pytest.mark.parametrize(
    ("features", "name"),
    few_fast_rows([(each, name) for each in INSTRUCTIONS for name in QUANTIZED]),
)
def test_products_of_quantized_layers_are_right(
    board: Board, tmp_path: Path, features: str, name: str
) -> None:
    layers, output = QUANTIZED[name]()
    model = layers.quantized(output, tmp_path)
    x = layers.input()
    target = target_with(board.bench.device, features)
    mod, params = from_onnx(model)
    library = build_on_integers(mod, target, params)
    assert INSTRUCTIONS[features] in library.get_lib().get_source("asm")
    (found,) = board.run(library, {"x": x})
    # Sums are exact; what follows may round to the other side (docs/design/int8.md).
    off = np.abs(found - meaning(model, x)) / step_of_last(model)
    assert off.max() < 1 + HALF_A_STEP
    assert (off > HALF_A_STEP).mean() < MOST_OFF
