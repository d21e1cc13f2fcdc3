"""Operands of an attention, copied to panels whatever their order in memory."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, assert_close, var
from tests.sampled import few_fast_rows
from tests.schedules.attention_numbers import built, softmax

HEADS, ROWS, KEYS, DEPTH, WIDTH = 2, 9, 19, 5, 18


@pytest.mark.parametrize(
    ("key_rows", "value_rows"),
    few_fast_rows([(True, False), (False, True), (True, True), (False, False)], 1),
)
def test_keys_and_values_in_rows_or_columns(key_rows: bool, value_rows: bool) -> None:
    key_shape = (HEADS, KEYS, DEPTH) if key_rows else (HEADS, DEPTH, KEYS)
    value_shape = (HEADS, WIDTH, KEYS) if value_rows else (HEADS, KEYS, WIDTH)
    scores = relay.nn.batch_matmul(
        var("q", HEADS, ROWS, DEPTH), var("k", *key_shape), transpose_b=key_rows
    )
    body = relay.nn.batch_matmul(
        relay.nn.softmax(scores), var("v", *value_shape), transpose_b=value_rows
    )
    generator = np.random.default_rng(0)
    shapes = {"q": (HEADS, ROWS, DEPTH), "k": key_shape, "v": value_shape}
    arrays = {
        name: generator.standard_normal(shape).astype("float32") for name, shape in shapes.items()
    }
    q, k, v = (arrays[name].astype("float64") for name in "qkv")
    k = k.transpose(0, 2, 1) if key_rows else k
    v = v.transpose(0, 2, 1) if value_rows else v
    assert_close([built(body, arrays)], [(softmax(q @ k) @ v).astype("float32")], REASSOCIATING)
