from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvm_fusionx as fx
from tests.data_models import assert_agrees, boxes_and_scores, floats, made, suppressing
from tvm_fusionx.errors import UnsupportedOperatorError


def test_boxes_are_suppressed_by_corners_or_by_centers() -> None:
    assert_agrees(suppressing(center_point_box=1), boxes_and_scores(), boxes_and_scores(seed=7))


def test_without_a_greatest_number_no_box_is_kept() -> None:
    node = helper.make_node("NonMaxSuppression", ["b", "s"], ["y"])
    feeds = boxes_and_scores()
    assert_agrees(made([node], feeds, ["y"]), feeds)


def test_places_that_are_not_zero_have_a_coordinate_for_each_axis() -> None:
    feeds = {
        "one": floats(7) > 0,
        "two": np.array([[0, 1, 1], [1, 0, 0]], "float32"),
        "three": np.random.default_rng(0).integers(0, 2, (2, 3, 4)),
    }
    nodes = [helper.make_node("NonZero", [name], [f"{name}_places"]) for name in feeds]
    given = made(nodes, feeds, [f"{name}_places" for name in feeds])
    assert_agrees(given, feeds, {name: np.zeros_like(array) for name, array in feeds.items()})


def test_slices_are_kept_where_a_condition_holds() -> None:
    feeds = {"x": floats(5, 3), "c": floats(5, seed=1)}
    nodes = [
        helper.make_node("Greater", ["c", "zero"], ["holds"]),
        helper.make_node("Compress", ["x", "holds"], ["rows"], axis=0),
        helper.make_node("Compress", ["x", "holds"], ["elements"]),
    ]
    given = made(nodes, feeds, ["rows", "elements"], {"zero": np.float32(0)})
    assert_agrees(given, feeds, {**feeds, "c": -np.abs(feeds["c"])})


def test_as_many_are_taken_as_was_computed() -> None:
    feeds = {"x": floats(16), "y": floats(2, 16, 3), "k": np.array([4])}
    nodes = [
        helper.make_node("Greater", ["x", "zero"], ["flags"]),
        helper.make_node("Cast", ["flags"], ["whole"], to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["whole"], ["count"], keepdims=1),
        helper.make_node("TopK", ["x", "count"], ["largest", "at"]),
        helper.make_node("TopK", ["y", "k"], ["smallest", "there"], axis=1, largest=0),
    ]
    outputs = ["largest", "at", "smallest", "there"]
    program = assert_agrees(made(nodes, feeds, outputs, {"zero": np.float32(0)}), feeds)
    assert program.outputs[2].dims == (2, None, 3)


def test_of_what_was_selected_a_known_number_has_a_known_extent() -> None:
    feeds = {"x": floats(16)}
    nodes = [
        helper.make_node("NonZero", ["x"], ["table"]),
        helper.make_node("Reshape", ["table", "flat"], ["places"]),
        helper.make_node("Gather", ["x", "places"], ["values"]),
        helper.make_node("TopK", ["values", "three"], ["largest", "at"]),
    ]
    weights = {"three": np.array([3]), "flat": np.array([-1])}
    program = assert_agrees(made(nodes, feeds, ["largest", "at"], weights), feeds)
    assert program.outputs[0].dims == (3,)


@pytest.mark.slow
@pytest.mark.parametrize("is_sorted", [1, 0], ids=["sorted", "as they came"])
def test_each_value_is_returned_once(is_sorted: int) -> None:
    feeds = {
        "x": np.random.default_rng(0).integers(0, 5, 12),
        "y": np.random.default_rng(1).integers(0, 4, (3, 4)).astype("float32"),
        "z": np.random.default_rng(2).integers(0, 3, 9).astype("int8"),
    }
    nodes, outputs = [], []
    for name in feeds:
        wanted = [f"{name}{number}" for number in range(4)]
        nodes.append(helper.make_node("Unique", [name], wanted, sorted=is_sorted))
        outputs += wanted
    alike = {name: np.ones_like(array) for name, array in feeds.items()}
    assert_agrees(made(nodes, feeds, outputs), feeds, alike)


def test_rows_that_are_unique_are_refused() -> None:
    feeds = {"x": floats(3, 4)}
    given = made([helper.make_node("Unique", ["x"], ["y"], axis=0)], feeds, ["y"])
    with pytest.raises(UnsupportedOperatorError, match="no axis, or a vector"):
        fx.from_onnx(given)
