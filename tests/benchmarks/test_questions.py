"""Answers are scored as SQuAD scores them."""

from __future__ import annotations

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.apps.answers import Answer

questions = script("questions")


@pytest.mark.parametrize(
    ("found", "right", "exact", "f1"),
    [
        ("The Broncos.", "broncos", True, 1.0),
        ("Denver Broncos", "Broncos", False, 2 / 3),
        ("in a town", "in the town", True, 1.0),
        ("", "Broncos", False, 0.0),
        ("", "the", True, 1.0),
    ],
)
def test_scores_of_one(found: str, right: str, exact: bool, f1: float) -> None:
    assert questions.is_exact(found, right) == exact
    assert questions.f1(found, right) == pytest.approx(f1)


def test_scores_of_a_file() -> None:
    qas = [
        {"question": "one?", "answers": [{"text": "red", "answer_start": 0}]},
        {"question": "two?", "answers": [{"text": "blue sky"}, {"text": "sky"}]},
    ]
    data = {"data": [{"paragraphs": [{"context": "red, blue sky", "qas": qas}]}]}
    asked = list(questions.questions_of(data))
    assert [each.text for each in asked] == ["one?", "two?"]
    said = {"one?": Answer("green", None, None, 1.0), "two?": Answer("blue", 5, 9, 3.0)}
    found = questions.scored(asked, lambda passage, question: said[question])
    assert found["exact_match"] == 0.0
    assert found["f1"] == pytest.approx(100 * (2 / 3) / 2)
    assert (found["questions"], found["in_the_passage"], found["median_ms"]) == (2, 50.0, 3.0)
