from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import tvm_fusionx as fx
from tests.data_models import assert_agrees, floats, made
from tests.frontend.converters.test_open_shapes import SELECT, WEIGHTS
from tvm_fusionx.errors import UnsupportedOperatorError


@pytest.mark.slow
def test_elements_are_read_where_the_data_says() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [
        *SELECT,
        helper.make_node("NonZero", ["flags"], ["table"]),
        helper.make_node("Transpose", ["table"], ["tuples"]),
        helper.make_node("GatherND", ["x", "tuples"], ["found"]),
        helper.make_node("Squeeze", ["table", "zero"], ["places"]),
        helper.make_node("Gather", ["x", "places"], ["same"]),
        helper.make_node("Gather", ["rows", "last"], ["column_of_rows"], axis=1),
        helper.make_node("Gather", ["rows", "backward"], ["moved"], axis=1),
        helper.make_node("ArgMax", ["rows"], ["largest"], axis=1),
        helper.make_node("GatherElements", ["rows", "largest"], ["values"], axis=1),
        helper.make_node("Split", ["rows"], ["left", "middle", "right"], axis=1),
    ]
    outputs = ["found", "same", "column_of_rows", "moved", "values", "left", "right"]
    weights = {**WEIGHTS, "last": np.array(-1), "backward": np.array([-1, 0])}
    given = made(nodes, feeds, outputs, weights)
    assert_agrees(given, feeds, {"x": np.abs(feeds["x"])})


@pytest.mark.slow
def test_ranges_are_cut_where_extents_or_bounds_depend_on_data() -> None:
    feeds = {"x": floats(9, 3), "c": floats(9, seed=1)}
    nodes = [
        *SELECT,
        helper.make_node("ArgMax", ["c"], ["end"], axis=0, keepdims=1),
        helper.make_node("Slice", ["x", "zero", "end", "zero"], ["beginning"]),
        helper.make_node("Slice", ["x", "end", "far", "zero"], ["rest"]),
        helper.make_node("Slice", ["rows", "one", "far", "one"], ["columns"]),
        helper.make_node("Slice", ["rows", "minus", "far", "zero"], ["last"]),
        helper.make_node("Slice", ["rows", "zero", "far", "zero", "two"], ["even"]),
    ]
    outputs = ["beginning", "rest", "columns", "last", "even"]
    weights = {**WEIGHTS, "far": np.array([2**63 - 1]), "minus": np.array([-2])}
    given = made(nodes, feeds, outputs, weights)
    program = assert_agrees(
        given, feeds, {"x": np.abs(feeds["x"]), "c": np.arange(9, 0, -1).astype("float32")}
    )
    assert program.outputs[0].dims == (None, 3)


def test_steps_backward_are_refused_where_an_extent_depends_on_data() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [*SELECT, helper.make_node("Slice", ["rows", "m1", "far", "zero", "m1"], ["y"])]
    weights = {**WEIGHTS, "m1": np.array([-1]), "far": np.array([-(2**63)])}
    with pytest.raises(UnsupportedOperatorError, match="steps forward"):
        fx.from_onnx(made(nodes, feeds, ["y"], weights))
