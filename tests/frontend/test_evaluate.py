from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from tests.frontend.small_models import model, operator_names, value
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.frontend.evaluate import attribute_value, evaluate

OPSETS = {"": 17}


def test_a_node_of_known_inputs_is_computed() -> None:
    node = helper.make_node("Concat", ["a", "b"], ["y"], axis=0)
    (result,) = evaluate(node, [np.array([1]), np.array([2, 3])], OPSETS) or []
    assert result.tolist() == [1, 2, 3]


def test_large_integers_divide_exactly() -> None:
    node = helper.make_node("Div", ["a", "b"], ["y"])
    a, b = np.array([2**62 + 1, -7, 7], "int64"), np.array([1, 2, -2], "int64")
    (result,) = evaluate(node, [a, b], OPSETS) or []
    assert result.tolist() == [2**62 + 1, -3, -3]
    assert evaluate(node, [a, b * 0], OPSETS) is None


def test_elements_are_gathered_one_by_one() -> None:
    data = np.arange(12).reshape(3, 4)
    indices = np.array([[0, -1, 2], [3, 3, -4]])
    node = helper.make_node("GatherElements", ["x", "i"], ["y"], axis=1)
    (result,) = evaluate(node, [data, indices], OPSETS) or []
    assert result.tolist() == [[0, 3, 2], [7, 7, 4]]


def test_what_the_reference_computes_wrongly_stays() -> None:
    scatter = helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="mul")
    x = np.ones(3, "float32")
    assert evaluate(scatter, [x, np.array([0]), x[:1]], OPSETS) is None
    aligned = helper.make_node("Add", ["a", "b"], ["y"], broadcast=1, axis=0)
    assert evaluate(aligned, [np.ones((2, 3)), np.ones(2)], {"": 6}) is None


def test_one_is_hot_among_infinities() -> None:
    node = helper.make_node("OneHot", ["i", "d", "v"], ["y"], axis=0)
    values = np.float32([0, -np.inf])
    (result,) = evaluate(node, [np.array([1, -1, 7]), np.array([3]), values], OPSETS) or []
    assert result.dtype == "float32"
    assert result.tolist() == [[0, 0, 0], [-np.inf, 0, 0], [0, -np.inf, 0]]


def test_squares_keep_their_type() -> None:
    node = helper.make_node("ReduceSumSquare", ["x"], ["y"], axes=[1])
    (result,) = evaluate(node, [np.array([[3, -4]], "int32")], OPSETS) or []
    assert (result.dtype, result.tolist()) == ("int32", [[25]])


@pytest.mark.parametrize(
    ("row", "found"),
    [
        ([-np.inf, -np.inf], -np.inf),
        ([np.inf, 0], np.inf),
        ([0, np.nan], np.nan),
        ([1000, 1000], 1000 + np.log(2)),
        ([], -np.inf),
    ],
)
def test_exponentials_are_added_to_the_end_of_their_range(row: list[float], found: float) -> None:
    node = helper.make_node("ReduceLogSumExp", ["x"], ["y"], axes=[1], keepdims=0)
    (result,) = evaluate(node, [np.array([row], "float32")], OPSETS) or []
    assert (result.dtype, result.shape) == ("float32", (1,))
    np.testing.assert_allclose(result, [found], rtol=1e-6)


def test_random_and_unknown_operators_stay() -> None:
    random = helper.make_node("RandomUniform", [], ["y"], shape=[2])
    assert evaluate(random, [], OPSETS) is None
    foreign = helper.make_node("Mystery", ["x"], ["y"], domain="com.example")
    assert evaluate(foreign, [np.zeros(1)], OPSETS) is None


def test_types_without_numpy_equivalent_stay() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E4M3FN)
    assert evaluate(node, [np.zeros(2, "float32")], OPSETS) is None


def test_bfloat16_is_evaluated() -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16)
    found = evaluate(node, [np.float32([1 + 2.0**-8, 3])], OPSETS)
    assert found is not None
    assert found[0].dtype == "bfloat16"
    assert found[0].astype("float32").tolist() == [1, 3]


def test_attributes_are_decoded() -> None:
    decoded = {
        a.name: attribute_value(a)
        for a in helper.make_node("X", [], [], text="abc", words=["a", "b"], many=[1, 2]).attribute
    }
    assert decoded == {"text": "abc", "words": ["a", "b"], "many": [1, 2]}


SIZES = st.integers(min_value=-5, max_value=9)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["Add", "Mul", "Sub", "Max", "Where", "Gather", "Cast", "Range"]), SIZES
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30)
@given(STEPS)
def test_shape_arithmetic_folds_to_what_the_reference_computes(
    steps: list[tuple[str, int]],
) -> None:
    """Arithmetic on a shape, as exporters write it, must leave no call and the right number."""
    nodes = [
        helper.make_node("Shape", ["x"], ["dims"]),
        helper.make_node("Gather", ["dims", "zero"], ["v0"], axis=0),
    ]
    weights = {
        "zero": np.array(0, "int64"),
        "two": np.array(2, "int64"),
        "one": np.array(1, "int64"),
    }
    for i, (op_type, number) in enumerate(steps):
        here, there, extra = f"v{i}", f"v{i + 1}", f"t{i}"
        weights[f"c{i}"] = np.array(number, "int64")
        if op_type == "Where":
            nodes.append(helper.make_node("Greater", [here, f"c{i}"], [extra]))
            nodes.append(helper.make_node("Where", [extra, here, f"c{i}"], [there]))
        elif op_type == "Gather":
            nodes.append(helper.make_node("Unsqueeze", [here, f"axes{i}"], [extra]))
            nodes.append(helper.make_node("Concat", [extra, "dims"], [f"u{i}"], axis=0))
            nodes.append(helper.make_node("Gather", [f"u{i}", "two"], [there], axis=0))
            weights[f"axes{i}"] = np.array([0], "int64")
        elif op_type == "Cast":
            nodes.append(helper.make_node("Cast", [here], [extra], to=TensorProto.INT32))
            nodes.append(helper.make_node("Cast", [extra], [there], to=TensorProto.INT64))
        elif op_type == "Range":
            nodes.append(helper.make_node("Range", ["zero", "two", "one"], [extra]))
            nodes.append(helper.make_node("ReduceSum", [extra], [f"u{i}"], keepdims=0))
            nodes.append(helper.make_node("Add", [here, f"u{i}"], [there]))
        else:
            nodes.append(helper.make_node(op_type, [here, f"c{i}"], [there]))
    given_model = model(nodes, [value("x", [4, 3])], [f"v{len(steps)}"], weights)
    mod, _ = from_onnx(given_model)
    assert operator_names(mod) == []
    feeds = {"x": np.zeros((4, 3), "float32")}
    (expected,) = ReferenceEvaluator(given_model).run(None, feeds)
    assert int(mod["main"].body.data.numpy()) == int(expected)
