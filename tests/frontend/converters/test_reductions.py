from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from tests.frontend.onnx_nodes import Case, check, floats, ints, run
from tests.frontend.small_models import model, value
from tvm_fusionx.frontend.converters.reductions import REDUCTIONS

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

SIGNED = floats(2, 3, 4)
X = np.abs(SIGNED) + 0.1
# What is no number of a sum below zero.
ABOVE_ZERO = ("ReduceLogSum",)
NUMPY = {
    "ReduceL1": lambda x, **k: np.abs(x).sum(**k),
    "ReduceL2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "ReduceLogSum": lambda x, **k: np.log(x.sum(**k)),
    "ReduceLogSumExp": lambda x, **k: np.log(np.exp(x).sum(**k)),
    "ReduceMax": np.max,
    "ReduceMean": np.mean,
    "ReduceMin": np.min,
    "ReduceProd": np.prod,
    "ReduceSum": np.sum,
    "ReduceSumSquare": lambda x, **k: (x * x).sum(**k),
}


def test_every_reduction_is_checked() -> None:
    assert set(NUMPY) == set(REDUCTIONS)


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_reductions_over_several_axes(opset: int) -> None:
    """ReduceSum takes its axes as an input since opset 13, the others since 18."""
    cases = []
    for op_type, function in NUMPY.items():
        x = X if op_type in ABOVE_ZERO else SIGNED
        for axes, keepdims in (((0, 2), 1), ((-1,), 0)):
            expected = function(x, axis=axes, keepdims=bool(keepdims))
            has_input = opset >= 18 or (opset >= 13 and op_type == "ReduceSum")
            attributes = {"keepdims": keepdims} | ({} if has_input else {"axes": list(axes)})
            inputs = [x, ints(*axes)] if has_input else [x]
            cases.append(Case(op_type, inputs, attributes, known=[1], expected=[expected]))
    check(cases, opset)


def test_no_axes_mean_all_or_none() -> None:
    check(
        [
            Case("ReduceSum", [X], {"keepdims": 0}, expected=[X.sum()]),
            Case("ReduceSum", [X, ints()], {"noop_with_empty_axes": 1}, known=[1], expected=[X]),
            Case("ReduceSumSquare", [X], {"noop_with_empty_axes": 1}, expected=[X * X]),
            Case("ReduceMax", [np.float32(3.0)], {"keepdims": 0}, expected=[np.float32(3.0)]),
        ]
    )


def test_booleans_and_integers_reduce() -> None:
    flags = X > 0.5
    check(
        [
            Case("ReduceMax", [flags, ints(1)], known=[1], expected=[flags.max(1, keepdims=True)]),
            Case("ReduceMin", [flags, ints(1)], known=[1], expected=[flags.min(1, keepdims=True)]),
            Case("ReduceSum", [ints(1, 2, 3)], expected=[ints(6)]),
        ]
    )


def test_an_empty_set_reduces_to_its_neutral_element() -> None:
    empty = np.zeros((2, 0, 4), "float32")
    check(
        [
            Case("ReduceSum", [empty, ints(1)], known=[1]),
            Case("ReduceProd", [empty, ints(1)], known=[1]),
        ]
    )


def test_places_of_extremes() -> None:
    x = np.array([[1, 3, 3], [2, 2, 0]], "float32")
    check(
        [
            Case(op_type, [x], {"axis": 1, "select_last_index": last, "keepdims": keep})
            for op_type in ("ArgMax", "ArgMin")
            for last in (0, 1)
            for keep in (0, 1)
        ]
    )


def test_mean_and_variance_are_normalized() -> None:
    check([Case("MeanVarianceNormalization", [floats(2, 3, 4, 5)])])


def test_rows_of_infinities_keep_their_extreme() -> None:
    mask = np.array([[True, False, True], [False, False, False]])
    nodes = [
        helper.make_node("Where", ["mask", "x", "low"], ["a"]),
        helper.make_node("Where", ["mask", "x", "high"], ["b"]),
        helper.make_node("ReduceMax", ["a"], ["y"], axes=[1], keepdims=0),
        helper.make_node("ReduceMin", ["b"], ["z"], axes=[1]),
    ]
    weights = {"low": np.float32(-np.inf), "high": np.float32(np.inf)}
    inputs = [value("x", [2, 3]), value("mask", [2, 3], TensorProto.BOOL)]
    x = floats(2, 3)
    y, z = run(model(nodes, inputs, ["y", "z"], weights), {"x": x, "mask": mask})
    np.testing.assert_array_equal(y, np.where(mask, x, -np.inf).max(1))
    np.testing.assert_array_equal(z, np.where(mask, x, np.inf).min(1, keepdims=True))
