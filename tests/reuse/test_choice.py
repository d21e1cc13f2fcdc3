"""Choices as a text: what is written is read, and what is none is refused by name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tvm_fusionx.errors import ModelError
from tvm_fusionx.reuse.choice import Choice, choices_of_text, choices_text

CHOICE = Choice(4, 2, 16, "mean", False, ((0.5, -1.25), (0.1, 3.0)), seed=3)


def test_a_text_tells_all() -> None:
    assert choices_of_text(choices_text({"/conv1/Conv": CHOICE})) == {"/conv1/Conv": CHOICE}


def test_projections_are_signs_and_always_the_same() -> None:
    found = CHOICE.projections()
    assert found.shape == (4, 2)
    assert set(np.unique(found)) <= {-1.0, 1.0}
    # NumPy promises the numbers of this generator.
    assert found.tolist() == [[-1, -1], [1, 1], [-1, -1], [-1, 1]]
    assert CHOICE.threshold_array().tolist() == np.float32([[0.5, -1.25], [0.1, 3.0]]).tolist()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"length": 0}, "length 0"),
        ({"bits": 13}, "bits 13"),
        ({"bits": True}, "bits True"),
        ({"limit": 2.5}, "limit 2.5"),
        ({"representative": "median"}, "representative 'median'"),
        ({"per_batch": 1}, "per_batch 1"),
        ({"seed": -1}, "seed -1"),
        ({"thresholds": [[0.0]]}, "thresholds that are not rows of 2"),
        ({"thresholds": []}, "thresholds that are not rows of 2"),
        ({"thresholds": [[float("nan"), 0.0]]}, "not finite"),
        ({"thresholds": 7}, "TypeError"),
        ({"more": 1}, "TypeError"),
        ({"kept": {"codes": [[0]], "means": ""}}, "kept clusters of 1 segments, not of 2"),
        ({"kept": {"codes": [[0], [1]], "means": "AAAA"}}, "kept means"),
        ({"kept": 3}, "TypeError"),
    ],
)
def test_what_is_no_choice_is_refused(change: dict[str, Any], told: str) -> None:
    rows = json.loads(choices_text({"conv": CHOICE}))
    rows["conv"].update(change)
    with pytest.raises(ModelError, match=told):
        choices_of_text(json.dumps(rows))


@pytest.mark.parametrize("text", ["", "[1]", "3", '{"conv": 1}', '{"conv": {"bits": 2}}'])
def test_what_is_no_text_of_choices_is_refused(text: str) -> None:
    with pytest.raises(ModelError, match=r"fusionx\.reuse"):
        choices_of_text(text)
