"""Questions answered from a passage: what of it a language model would most likely say."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tvm_fusionx.apps.likely_spans import MOST_TOKENS, Reader, likeliest_span
from tvm_fusionx.errors import InputError

REQUEST = (
    "Read the passage and answer the question with a few words copied from the passage.\n\n"
    "Passage: {passage}\n\nQuestion: {question}"
)

# What the model has begun to say: few words follow, and no sentence about them.
BEGUN = "Answer:"


class RoomyReader(Reader, Protocol):
    """A reader whose cache grows when it is told to."""

    def reserve(self, tokens: int) -> None:
        """Make room for a text."""


@dataclass(frozen=True)
class Answer:
    """An answer, and where the passage has it."""

    text: str
    """The passage at the place found."""
    start: int | None
    """Its first character in the passage; None where nothing was found."""
    end: int | None
    """Behind its last character."""
    milliseconds: float
    """From the question to the answer."""


def ask(
    model: Reader,
    passage: str,
    question: str,
    is_stopped: Callable[[], bool] | None = None,
) -> Answer:
    """Answer a question from a passage.

    Parameters
    ----------
    model
        It forgets what it read before.
    passage, question
        Texts.
    is_stopped
        Asked between tokens; once it says True, the best answer so far is returned.

    Raises
    ------
    InputError
        Either is empty, or both are too long for the model.
    """
    check_asked(passage, question)
    start = time.perf_counter()
    prompt = asking(model, passage, question)
    found = likeliest_span(model, prompt, passage, is_stopped)
    took = 1e3 * (time.perf_counter() - start)
    if found is None:
        return Answer("", None, None, took)
    return Answer(passage[found.start : found.end], found.start, found.end, took)


def make_room(model: RoomyReader, passage: str, question: str) -> None:
    """Have the model ready for a passage, a question and the answer.

    Raises
    ------
    InputError
        A passage or a question is empty, or both are too long for the model.
    """
    check_asked(passage, question)
    tokens = len(model.tokenizer.encode(asking(model, passage, question))) + MOST_TOKENS
    try:
        model.reserve(tokens)
    except InputError as error:
        raise InputError(
            "passage",
            expected=error.expected,
            found=error.found,
            next_step="Give the part of it that has the answer.",
        ) from error


def asking(model: Reader, passage: str, question: str) -> str:
    """Return the text that an answer follows."""
    content = REQUEST.format(passage=passage.strip(), question=question.strip())
    return model.tokenizer.chat([{"role": "user", "content": content}]) + BEGUN


def check_asked(passage: str, question: str) -> None:
    """Raise InputError where a passage or a question is empty."""
    for name, text in (("passage", passage), ("question", question)):
        if not text.strip():
            raise InputError(
                name, expected="some text", found="none", next_step="Give one that is not empty."
            )
