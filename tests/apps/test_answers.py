"""Answers are words of their passage."""

from __future__ import annotations

import pytest

from tests.apps.fake_reader import FakeReader
from tvm_fusionx.apps.answers import ask, asking, check_asked, make_room
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


class _Small(FakeReader):
    """Has room for some tokens."""

    asked = 0

    def reserve(self, tokens: int) -> None:
        self.asked = tokens
        if tokens > 400:
            raise InputError("text", expected="at most 400", found=str(tokens), next_step="Stop.")


def test_room_is_made_for_an_answer_too() -> None:
    model = _Small(0)
    make_room(model, PASSAGE, "who won?")
    assert model.asked == len(model.tokenizer.encode(asking(model, PASSAGE, "who won?"))) + 24
    with pytest.raises(InputError, match=r"^passage: .*Give the part of it that has the answer"):
        make_room(model, PASSAGE * 20, "who won?")
    with pytest.raises(InputError, match="question: expected some text"):
        make_room(model, PASSAGE, "")


def test_a_passage_without_words_has_no_answer() -> None:
    found = ask(FakeReader(0), "...", "who won?")
    assert (found.text, found.start, found.end) == ("", None, None)


@pytest.mark.parametrize(("passage", "question"), [("", "Who?"), ("Text.", " \n")])
def test_nothing_is_refused(passage: str, question: str) -> None:
    with pytest.raises(InputError, match="expected some text; found none"):
        check_asked(passage, question)
    with pytest.raises(InputError, match="expected some text; found none"):
        ask(FakeReader(0), passage, question)
