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


def test_both_operands_may_be_open() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [
        *SELECT,
        helper.make_node("Transpose", ["rows"], ["turned"]),
        helper.make_node("MatMul", ["rows", "turned"], ["square"]),
        helper.make_node("MatMul", ["turned", "rows"], ["small"]),
        helper.make_node("MatMul", ["v", "turned"], ["wide"]),
        helper.make_node("Unsqueeze", ["rows", "zero"], ["deep"]),
        helper.make_node("Transpose", ["deep"], ["back"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["deep", "back"], ["batch"]),
        helper.make_node("Unsqueeze", ["back", "zero"], ["deeper"]),
        helper.make_node("MatMul", ["v4", "deeper"], ["four"]),
    ]
    weights = {
        **WEIGHTS,
        "v": floats(5, 3),
        "v4": floats(1, 1, 5, 3, seed=1),
        "zero": np.array([0], "int64"),
    }
    given = made(nodes, feeds, ["square", "small", "wide", "batch", "four"], weights)
    program = assert_agrees(given, feeds, {"x": np.abs(feeds["x"])})
    assert [output.dims for output in program.outputs] == [
        (None, None),
        (3, 3),
        (5, None),
        (1, None, None),
        (1, 1, 5, None),
    ]


def test_open_operands_that_broadcast_are_refused() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [
        *SELECT,
        helper.make_node("Unsqueeze", ["rows", "one"], ["deep"]),
        helper.make_node("MatMul", ["deep", "many"], ["y"]),
    ]
    weights = {**WEIGHTS, "many": floats(2, 3, 3)}
    with pytest.raises(UnsupportedOperatorError, match="the same batches of a number known"):
        fx.from_onnx(made(nodes, feeds, ["y"], weights))
