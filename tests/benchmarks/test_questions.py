"""Answers are scored as SQuAD scores them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

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


QAS = [
    {"id": "a", "question": "one?", "answers": [{"text": "red", "answer_start": 0}]},
    {"id": "b", "question": "two?", "answers": [{"text": "blue sky"}, {"text": "sky"}]},
]
DATA = {"data": [{"paragraphs": [{"context": "red, blue sky", "qas": QAS}]}]}
SAID = {"one?": Answer("green", None, None, 1.0), "two?": Answer("blue", 5, 9, 3.0)}


def test_scores_of_a_file(tmp_path: Path) -> None:
    asked = list(questions.questions_of(DATA))
    assert [each.text for each in asked] == ["one?", "two?"]
    rows = questions.answer_all(
        asked, {"likely": lambda passage, question: SAID[question]}, tmp_path / "rows.jsonl"
    )
    found = questions.scores(rows)
    assert found["exact_match"] == 0.0
    assert found["f1"] == pytest.approx(100 * (2 / 3) / 2, abs=0.01)
    assert (found["questions"], found["in_the_passage"], found["median_ms"]) == (2, 50.0, 3.0)
    assert "green" not in (tmp_path / "rows.jsonl").read_text()


def test_a_run_that_was_killed_goes_on(tmp_path: Path) -> None:
    asked, path = list(questions.questions_of(DATA)), tmp_path / "rows.jsonl"
    times = Counter[str]()

    def answer(passage: str, question: str) -> Answer:
        times[question] += 1
        return SAID[question]

    questions.answer_all(asked[:1], {"likely": answer}, path)
    # Killed within a line.
    path.write_text(path.read_text() + '{"question": "b", "si')
    rows = questions.answer_all(asked, {"likely": answer, "transformers": answer}, path)
    assert times == {"one?": 2, "two?": 2}
    assert questions.read_rows(path) == rows
    assert questions.same_answers(rows, "likely", "transformers") == (2, 2)
    told = [(row["question"], row["side"]) for row in rows]
    assert told == [("a", "likely"), ("a", "transformers"), ("b", "likely"), ("b", "transformers")]


def test_the_order_is_the_same_every_time() -> None:
    names = [f"{number:03}" for number in range(50)]
    asked = [questions.Question("", "", (), name) for name in names]
    order = [each.name for each in questions.shuffled(asked)]
    assert sorted(order) == names != order
    assert [each.name for each in questions.shuffled(reversed(asked))] == order
