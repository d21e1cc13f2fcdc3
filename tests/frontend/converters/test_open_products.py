from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import tvm_fusionx as fx
from tests.data_models import assert_agrees, floats, made
from tests.frontend.converters.test_open_shapes import SELECT, WEIGHTS
from tvm_fusionx.errors import UnsupportedOperatorError


def test_as_many_rows_as_the_data_says_are_multiplied() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [
        *SELECT,
        helper.make_node("MatMul", ["rows", "w"], ["product"]),
        helper.make_node("Unsqueeze", ["rows", "one"], ["deep"]),
        helper.make_node("MatMul", ["deep", "w"], ["stacked"]),
        helper.make_node("Gemm", ["rows", "wt", "b"], ["affine"], transB=1, alpha=0.5, beta=2.0),
    ]
    weights = {**WEIGHTS, "w": floats(3, 8), "wt": floats(8, 3, seed=1), "b": floats(8, seed=2)}
    given = made(nodes, feeds, ["product", "stacked", "affine"], weights)
    program = assert_agrees(given, feeds, {"x": np.abs(feeds["x"])})
    assert program.outputs[0].dims == (None, 8)


def test_two_open_operands_are_refused() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [
        *SELECT,
        helper.make_node("Transpose", ["rows"], ["turned"]),
        helper.make_node("MatMul", ["rows", "turned"], ["y"]),
    ]
    with pytest.raises(UnsupportedOperatorError, match="a matrix of known size"):
        fx.from_onnx(made(nodes, feeds, ["y"], WEIGHTS))
