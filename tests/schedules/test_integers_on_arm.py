"""Products of integers on Arm, by each of its instructions: run under emulation, right."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.quantized_models import Layers, build_on_integers, meaning, step_of_last
from tests.sampled import few_fast, few_fast_rows
from tests.schedules.arm_board import ARMV82, ARMV86, NEON, Board, emulated_arm, target_with
from tvm_fusionx.devices import find_device
from tvm_fusionx.devices.emulation import PRESET
from tvm_fusionx.frontend.from_onnx import from_onnx
from tvm_fusionx.processors.cpu import describe_cpu

# Of quantized results, a step apart at most where two numbers are rounded otherwise, and how many.
HALF_A_STEP = 0.5
MOST_OFF = 0.01


@pytest.fixture(scope="module", name="board")
def fixture_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with emulated_arm(tmp_path_factory.mktemp("arm")) as board:
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
INSTRUCTIONS = {ARMV82: "sdot", ARMV86: "smmla", NEON: "smlal"}


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


# Shape of the data, that of the weights, and how they are convolved; of matrices where it is None.
# Depths that fill words, halves of them, and neither; first layers; tiles moved back at an edge.
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any] | None]] = {
    **{f"{depth} terms": ((5, depth), (depth, 24), None) for depth in (1, 2, 3, 4, 7, 18, 64, 129)},
    "a row of many columns": ((1, 256), (256, 1000), None),
    "a picture": ((1, 3, 15, 17), (16, 3, 3, 3), {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "a wide window": ((1, 3, 19, 19), (8, 3, 7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
    "one pixel": ((1, 24, 7, 7), (32, 24, 1, 1), {}),
    "channels that no word fills": ((1, 10, 6, 9), (12, 10, 3, 3), {"pads": [1, 1, 1, 1]}),
    "groups": ((1, 16, 6, 6), (16, 4, 3, 3), {"group": 4}),
    "channels apart": ((1, 16, 9, 9), (16, 1, 3, 3), {"group": 16, "pads": [1, 1, 1, 1]}),
}

# Those of several terms that an even number of pairs fills.
TWO_AT_ONCE = ("7 terms", "64 terms", "a row of many columns", "a picture", "one pixel", "groups")


def _extremes(dtype: str, shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    """Return integers of which half are the least or the largest of their type."""
    limits = np.iinfo(dtype)
    anywhere = generator.integers(limits.min, limits.max + 1, shape)
    ends = generator.choice([limits.min, limits.max], shape)
    return np.where(generator.integers(0, 2, shape) == 1, ends, anywhere).astype(dtype)


def _sums(name: str, dtype: str, least: int) -> tuple[Any, np.ndarray]:
    """Return a model whose results are sums of products of bytes, and data for it.

    Parameters
    ----------
    least
        How many weights of each output are -128.
    """
    data, shape, how = SHAPES[name]
    generator = np.random.default_rng(0)
    weights = np.maximum(_extremes("int8", shape, generator), -127)
    outputs = weights.T if how is None else weights.reshape(len(weights), -1)
    outputs[:, :least] = -128
    x = _extremes(dtype, data, generator)
    x.flat[: data[-1]] = np.iinfo(dtype).min
    op = "MatMulInteger" if how is None else "ConvInteger"
    zero = np.array(np.iinfo(dtype).min + 3, dtype)
    node = helper.make_node(op, ["x", "w", "z"], ["y"], **(how or {}))
    kind = getattr(TensorProto, dtype.upper())
    body = helper.make_graph(
        [node],
        "sums",
        [helper.make_tensor_value_info("x", kind, data)],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(zero, "z")],
    )
    opset = [helper.make_opsetid("", 13)]
    return helper.make_model(body, opset_imports=opset, ir_version=8), x


def _run_sums(board: Board, model: Any, x: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the sums that plain NEON computes, and its code."""
    mod, params = from_onnx(model)
    library = build_on_integers(mod, target_with(board.bench.device, NEON), params)
    (found,) = board.run(library, {"x": x})
    return found, library.get_lib().get_source("asm")


@pytest.mark.parametrize(
    ("name", "dtype"),
    few_fast_rows(((name, dtype) for name in SHAPES for dtype in ("uint8", "int8")), fast=4),
)
def test_sums_of_products_added_in_words_are_exact(board: Board, name: str, dtype: str) -> None:
    model, x = _sums(name, dtype, least=1)
    found, code = _run_sums(board, model, x)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert np.array_equal(found, expected)
    if name in TWO_AT_ONCE:
        assert all(each in code for each in ("smull", "smlal", "sadalp"))


@pytest.mark.parametrize("name", few_fast(["18 terms", "one pixel"], fast=1))
def test_weights_that_leave_no_room_are_not_added_in_words(board: Board, name: str) -> None:
    model, x = _sums(name, "int8", least=2)
    found, code = _run_sums(board, model, x)
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    assert np.array_equal(found, expected)
    assert "sadalp" not in code


def test_products_of_integers_alone_differ_by_an_extension() -> None:
    """Others differ by LLVM alone; bounds of halves run on a core that has both."""
    board = find_device(PRESET)
    plain, extended = (describe_cpu(target_with(board, features)) for features in (NEON, ARMV82))
    assert plain.adds_in_words
    assert not extended.adds_in_words
    assert extended == replace(plain, dot=extended.dot, byte_dot=extended.dot, compares_halves=True)
