"""How far a benchmark's sides are from the reference."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tvm_fusionx.report.bench.accuracy import distance_of, relative_errors

REFERENCE = [np.ones((1, 10), "float32")]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_infinitely_far(value: float) -> None:
    whole = [np.full((1, 10), value, "float32")]
    one = [np.ones((1, 10), "float32")]
    one[0][0, 3] = value
    assert distance_of(whole, REFERENCE) == distance_of(one, REFERENCE) == math.inf
    assert distance_of(whole, whole) == 0


def test_sizes_must_agree_and_extents_of_one_need_not() -> None:
    assert distance_of([np.ones(10)], REFERENCE) == 0
    assert distance_of([np.ones(11)], REFERENCE) == math.inf
    assert distance_of([], REFERENCE) == math.inf


def test_every_side_that_is_wrong_has_a_message_ours_too() -> None:
    outputs = {
        "fusionx": [np.zeros((1, 10), "float32")],
        "ort": [np.full((1, 10), 1 + 1e-6)],
        "mnn": [np.full((1, 10), np.nan)],
    }
    errors, messages = relative_errors(outputs, REFERENCE)
    assert errors == {"fusionx": 1.0, "ort": pytest.approx(1e-6, rel=0.1)}
    assert set(messages) == {"fusionx", "mnn"}
    assert "1 off" in messages["fusionx"]
    assert "NaN" in messages["mnn"]
