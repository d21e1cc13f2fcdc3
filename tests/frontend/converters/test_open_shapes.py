from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvm_fusionx as fx
from tests.data_models import assert_agrees, floats, made
from tests.frontend.small_models import calls
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters.open_shapes import extents, restored, shape_vector
from tvm_fusionx.frontend.values import Tensor

# Rows of x whose first column is positive: [?, 3].
SELECT = [
    helper.make_node("Gather", ["x", "first"], ["column"], axis=1),
    helper.make_node("Greater", ["column", "nothing"], ["flags"]),
    helper.make_node("Compress", ["x", "flags"], ["rows"], axis=0),
]
WEIGHTS = {
    "first": np.array(0),
    "nothing": np.float32(0),
    "zero": np.array([0]),
    "one": np.array([1]),
    "two": np.array([2]),
}


def test_shapes_are_read_and_given() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [
        *SELECT,
        helper.make_node("Shape", ["rows"], ["shape"]),
        helper.make_node("Shape", ["rows"], ["width"], start=1),
        helper.make_node("Size", ["rows"], ["size"]),
        helper.make_node("Gather", ["shape", "zero"], ["count"]),
        helper.make_node("Concat", ["one", "count", "width"], ["target"], axis=0),
        helper.make_node("Reshape", ["rows", "target"], ["reshaped"]),
        helper.make_node("Reshape", ["rows", "columns"], ["turned"]),
        helper.make_node("Flatten", ["reshaped"], ["flat"], axis=2),
        helper.make_node("Unsqueeze", ["rows", "one"], ["wider"]),
        helper.make_node("Squeeze", ["wider", "one"], ["back"]),
        helper.make_node("Transpose", ["rows"], ["transposed"]),
        helper.make_node("Concat", ["rows", "x", "rows"], ["joined"], axis=0),
        helper.make_node("ReduceMax", ["joined"], ["largest"], axes=[1]),
        helper.make_node("Softmax", ["rows"], ["soft"]),
    ]
    outputs = "shape width size reshaped turned flat back transposed joined largest soft".split()
    weights = {**WEIGHTS, "columns": np.array([0, -1, 1])}
    given = made(nodes, feeds, outputs, weights)
    assert_agrees(given, feeds, {"x": np.abs(feeds["x"])})


def test_tensors_are_made_in_shapes_that_the_data_decides() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [
        *SELECT,
        helper.make_node("Shape", ["rows"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node("Gather", ["shape", "first"], ["count"]),
        helper.make_node("Range", ["first", "count", "step"], ["numbers"]),
        helper.make_node("Cast", ["numbers"], ["places"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["places", "one"], ["column_of_places"]),
        helper.make_node("Add", ["rows", "column_of_places"], ["shifted"]),
        helper.make_node("Expand", ["row", "shape"], ["same"]),
        helper.make_node("Expand", ["rows", "more"], ["stacked"]),
        helper.make_node("Concat", ["one", "two"], ["repeats"], axis=0),
        helper.make_node("Tile", ["rows", "repeats"], ["tiled"]),
        helper.make_node("Mul", ["rows", "mean"], ["scaled"]),
        helper.make_node("ReduceMean", ["x"], ["mean"], keepdims=0),
    ]
    # Sorted as a file may be: the mean comes before its reader.
    nodes.insert(0, nodes.pop())
    weights = {
        **WEIGHTS,
        "step": np.array(1),
        "row": floats(1, 3),
        "more": np.array([2, 1, 1]),
    }
    outputs = ["zeros", "shifted", "same", "stacked", "tiled", "scaled"]
    given = made(nodes, feeds, outputs, weights)
    assert_agrees(given, feeds, {"x": np.abs(feeds["x"])})


def test_a_squeeze_needs_axes_where_the_shape_depends_on_data() -> None:
    feeds = {"x": floats(6, 3)}
    given = made([*SELECT, helper.make_node("Squeeze", ["rows"], ["y"])], feeds, ["y"], WEIGHTS)
    with pytest.raises(UnsupportedOperatorError, match="axes, for the shape depends on the data"):
        fx.from_onnx(given)


def test_what_is_known_of_a_shape_stays_known() -> None:
    feeds = {"x": floats(6, 3)}
    nodes = [*SELECT, helper.make_node("Reshape", ["rows", "columns"], ["y"])]
    mod, _ = fx.from_onnx(made(nodes, feeds, ["y"], {**WEIGHTS, "columns": np.array([-1, 1, 3])}))
    extents_of = mod["main"].ret_type.shape
    assert [str(extent) for extent in extents_of[1:]] == ["1", "3"]
    assert len(calls(mod)) > 0


def test_a_known_shape_is_a_constant_and_one_extent_at_most_is_inferred() -> None:
    known = Tensor.from_array(floats(2, 3))
    assert shape_vector(known).data.numpy().tolist() == [2, 3]
    assert [int(extent.data.numpy()) for extent in extents(known)] == [2, 3]
    assert restored(known.expr, (None, None)) is known.expr
    assert restored(known.expr, (None, 3)) is not known.expr
