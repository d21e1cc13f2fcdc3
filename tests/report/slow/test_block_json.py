from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, var
from tests.report.slow.blocks import block_call
from tvm_fusionx.report.slow.block_json import (
    STEERED_BY_WEIGHTS,
    NotTellableError,
    block_json,
    why_not_tellable,
)
from tvm_fusionx.report.slow.bounds import MOST_KEPT_NUMBERS

a, b, c = var("a", 4, 16), var("b", 8, 16), var("c", 8)


def _told(body: Any, *arguments: Any) -> dict[str, Any]:
    return block_json(block_call(body, list(arguments)))


def test_weights_are_shapes_and_dtypes_and_no_value_of_them_is_told() -> None:
    weights, bias = const(8, 16), const(8)
    told = _told(relay.nn.relu(relay.nn.dense(a, b) + c), var("x", 4, 16), weights, bias)
    assert told["operands"] == [
        {"type": ["float32", [4, 16]], "is_constant": False, "values": None},
        {"type": ["float32", [8, 16]], "is_constant": True, "values": None},
        {"type": ["float32", [8]], "is_constant": True, "values": None},
    ]
    assert [call["op"] for call in told["calls"]] == ["nn.dense", "add", "nn.relu"]
    assert told["calls"][0]["reads"] == [["operand", 0], ["operand", 1]]
    assert told["outputs"] == [["call", 2, 0]]
    text = json.dumps(told)
    for value in (*weights.data.numpy().reshape(-1), *bias.data.numpy()):
        assert repr(abs(float(value)))[:8] not in text


@pytest.mark.parametrize(
    ("value", "dtype", "kept"),
    [
        (0.0, "float32", 0.0),
        (3.0, "float32", 3.0),
        (-0.5, "float32", -0.5),
        (-math.inf, "float32", "-inf"),
        (0.3, "float32", None),
        (1e-5, "float32", None),
        (5.0, "float32", None),
        (math.nan, "float32", None),
    ],
)
def test_of_scalars_those_that_operators_are_made_of_stay(
    value: float, dtype: str, kept: Any
) -> None:
    told = _told(relay.multiply(a, relay.const(value, dtype)), var("x", 4, 16))
    assert told["scalars"] == [[dtype, kept]]


@pytest.mark.parametrize(
    ("count", "stays"), [(3, True), (MOST_KEPT_NUMBERS, True), (MOST_KEPT_NUMBERS + 1, False)]
)
def test_a_short_list_of_indices_stays(count: int, stays: bool) -> None:
    places = var("b", count, dtype="int64")
    numbers = np.arange(count, dtype="int64") % 4
    told = _told(relay.take(a, places, axis=0), var("x", 4, 16), relay.const(numbers, "int64"))
    assert told["operands"][1]["values"] == (numbers.tolist() if stays else None)


def test_whole_numbers_that_are_computed_with_do_not_stay() -> None:
    places, sums = var("b", 3, dtype="int32"), var("a", 3, dtype="int32")
    held = relay.const(np.array([7, 8, 9]), "int32")
    told = _told(sums + places, var("x", 3, dtype="int32"), held)
    assert told["operands"][1] == {"type": ["int32", [3]], "is_constant": True, "values": None}
    rows = var("a", 16, 4)
    both = _told(
        relay.take(rows, places, axis=0) * relay.reshape(relay.cast(places, "float32"), (3, 1)),
        var("x", 16, 4),
        held,
    )
    assert both["operands"][1]["values"] is None


def test_a_factor_of_a_quantised_layer_is_another() -> None:
    sums = var("a", 3, dtype="int32")
    body = relay.fixed_point_multiply(sums, multiplier=1234567890, shift=-3)
    told = _told(body, var("x", 3, dtype="int32"))
    assert told["calls"][0]["attributes"] == {"multiplier": 1 << 30, "shift": -3}


def test_names_are_told_only_where_they_are_asked_for() -> None:
    span = relay.Span(relay.SourceName("secret/layer"), 0, 0, 0, 0)
    call = block_call(relay.Call(relay.op.get("nn.relu"), [a], None, None, span), [var("x", 4, 16)])
    assert "secret" not in json.dumps(block_json(call))
    assert block_json(call, names=True)["calls"][0]["name"] == "secret/layer"


@pytest.mark.parametrize(
    ("body", "arguments", "about"),
    [
        (relay.nn.relu(a), [const(4, 16)], "nothing but constants"),
        (relay.argsort(a), [var("x", 4, 16)], "argsort is none of the operators"),
        (a + const(4, 16), [var("x", 4, 16)], r"a constant float32\[4, 16\] stands in it"),
    ],
)
def test_what_a_report_cannot_hold_is_refused(body: Any, arguments: list[Any], about: str) -> None:
    with pytest.raises(NotTellableError, match=about):
        block_json(block_call(body, arguments))


def test_a_block_that_is_too_large_is_refused() -> None:
    body = a
    for _ in range(1000):
        body = relay.tanh(body)
    with pytest.raises(NotTellableError, match="bytes, more than"):
        block_json(block_call(body, [var("x", 4, 16)]))


def test_operators_whose_weights_steer_them_are_none_of_a_report() -> None:
    for op in STEERED_BY_WEIGHTS:
        assert "is said by its weights" in str(why_not_tellable(op))
    assert why_not_tellable("nn.dense") is None
    assert why_not_tellable("function") == "a function is called in it"
    assert why_not_tellable("debug") is not None
