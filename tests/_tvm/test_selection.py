from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.data_models import assert_agrees, boxes_and_scores, suppressing
from tests.tiny_models import TARGET
from tvm_fusionx._tvm.selection import (
    RESULT,
    first_rows,
    non_max_suppression,
    places,
    register_selection,
)


@pytest.fixture(autouse=True)
def _registered() -> None:
    register_selection()


def _run(func: relay.Function, **arrays: np.ndarray) -> list[np.ndarray]:
    return fx.build(tvm.IRModule.from_expr(func), TARGET, executor="vm").run(**arrays)


def test_places_stand_before_zeros_and_are_cut_to_what_counts() -> None:
    flags = relay.var("flags", shape=(6,), dtype="bool")
    found, count = places(flags)
    func = relay.Function([flags], relay.Tuple([found, count, first_rows(found, count)]))
    given = np.array([False, True, True, False, False, True])
    padded, number, cut = _run(func, flags=given)
    assert padded.tolist() == [1, 2, 5, 0, 0, 0]
    assert number.tolist() == [3]
    assert cut.tolist() == [1, 2, 5]


def test_rows_of_several_axes_are_cut_and_their_other_extents_kept() -> None:
    data, count = relay.var("data", shape=(4, 2, 3)), relay.var("count", shape=(1,), dtype="int64")
    func = relay.Function([data, count], first_rows(data, count))
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(func))
    assert str(typed["main"].ret_type) == "Tensor[(?, 2, 3), float32]" or "T.Any" in str(
        typed["main"].ret_type
    )
    given = np.arange(24, dtype="float32").reshape(4, 2, 3)
    for number in (0, 1, 4):
        (cut,) = _run(func, data=given, count=np.array([number]))
        np.testing.assert_array_equal(cut, given[:number])


def test_what_is_selected_is_static_and_the_rest_zero() -> None:
    boxes, scores = relay.var("boxes", shape=(1, 3, 4)), relay.var("scores", shape=(1, 2, 3))
    numbers = [relay.const(np.array([v], d)) for v, d in ((2, "int64"), (0.5, "float32"))]
    least = relay.const(np.array([-np.inf], "float32"))
    selected, count = non_max_suppression(boxes, scores, *numbers, least)
    func = relay.Function([boxes, scores], relay.Tuple([selected, count]))
    lib = fx.build(tvm.IRModule.from_expr(func), TARGET)
    from tvm_fusionx.report.bench.plain_tvm import run_once

    given = np.array([[[0, 0, 2, 2], [0, 0, 2, 1.9], [5, 5, 6, 6]]], "float32")
    rows, number = run_once(
        lib,
        {"boxes": given, "scores": np.array([[[0.9, 0.8, 0.7], [0.1, 0.3, 0.3]]], "float32")},
    )
    assert number.tolist() == [4]
    # Of equal scores the first, unless the better one covers it.
    assert rows[:4].tolist() == [[0, 0, 0], [0, 0, 2], [0, 1, 1], [0, 1, 2]]
    assert rows.shape == (6, RESULT)
    assert not rows[4:].any()


def test_corners_in_any_order_ties_and_no_result_agree_with_onnx_runtime() -> None:
    flipped = boxes_and_scores(seed=3)
    flipped["b"][..., [0, 2]] = flipped["b"][..., [2, 0]]
    tied = boxes_and_scores(seed=5)
    tied["s"] = np.round(tied["s"])
    nothing = {**tied, "s": -tied["s"]}
    assert_agrees(suppressing(), boxes_and_scores(), flipped, tied, nothing)
