"""Products of bfloat16 by an instruction for matrices: run under emulation, right in every bit."""

from __future__ import annotations

from collections.abc import Iterator

import ml_dtypes
import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.odd_rounding import matrix_product
from tests.sampled import few_fast_rows
from tests.schedules.arm_board import ARMV86, Board, emulated_arm, target_with

BRAINS = f"{ARMV86},+bf16"

# Rows, terms and columns: tiles that rows fill or not, an odd row, one row, columns of one vector.
SHAPES = [(16, 32, 24), (13, 20, 16), (1, 64, 40), (3, 8, 4), (64, 96, 48)]


@pytest.fixture(scope="module", name="board")
def fixture_board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Board]:
    with emulated_arm(tmp_path_factory.mktemp("arm")) as board:
        yield board


def _brains(generator: np.random.Generator, *shape: int) -> np.ndarray:
    return generator.standard_normal(shape).astype(ml_dtypes.bfloat16)


@pytest.mark.parametrize(("rows", "terms", "columns"), few_fast_rows(SHAPES, fast=2))
def test_sums_are_those_of_the_instruction(
    board: Board, rows: int, terms: int, columns: int
) -> None:
    generator = np.random.default_rng(0)
    data, weights = _brains(generator, rows, terms), _brains(generator, columns, terms)
    bias = _brains(generator, columns)
    x = relay.var("x", shape=data.shape, dtype="bfloat16")
    product = relay.nn.dense(x, _constant(weights), out_dtype="bfloat16")
    main = relay.Function([x], relay.nn.relu(relay.add(product, _constant(bias))))
    library = fx.build(tvm.IRModule.from_expr(main), target_with(board.bench.device, BRAINS))
    assert "bfmmla" in library.get_lib().get_source("asm")
    (found,) = board.run(library, {"x": data})
    sums = matrix_product(data, weights) + bias.astype("float32")
    expected = np.maximum(sums, 0).astype(ml_dtypes.bfloat16)
    assert np.array_equal(found, expected.view("uint16"))


def _constant(array: np.ndarray) -> relay.Constant:
    return relay.Constant(tvm.nd.array(array))
