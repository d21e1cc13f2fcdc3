"""Answers are words of their passage."""

from __future__ import annotations

import pytest

from tests.apps.fake_reader import FakeReader
from tvm_fusionx.apps.answers import ask, asking, check_asked
from tvm_fusionx.errors import InputError

PASSAGE = " they lost.\nThe red team won 20 games.\n"


def test_an_answer_is_the_passage_at_its_place() -> None:
    found = ask(FakeReader(None, " red team"), PASSAGE, "who won?\n")
    assert found.text == "red team"
    assert (found.start, found.end) == (PASSAGE.index("red"), PASSAGE.index(" won"))
    assert found.milliseconds > 0


def test_the_model_is_told_passage_and_question() -> None:
    prompt = asking(FakeReader(0), PASSAGE, "who won?\n")
    assert "Passage: they lost.\nThe red team won 20 games.\n\nQuestion: who won?" in prompt
    assert prompt.endswith("Answer:")


def test_a_passage_without_words_has_no_answer() -> None:
    found = ask(FakeReader(0), "...", "who won?")
    assert (found.text, found.start, found.end) == ("", None, None)


@pytest.mark.parametrize(("passage", "question"), [("", "Who?"), ("Text.", " \n")])
def test_nothing_is_refused(passage: str, question: str) -> None:
    with pytest.raises(InputError, match="expected some text; found none"):
        check_asked(passage, question)
    with pytest.raises(InputError, match="expected some text; found none"):
        ask(FakeReader(0), passage, question)
