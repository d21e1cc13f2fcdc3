"""Questions answered from a passage: a language model's words, found again in the passage."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from dataclasses import dataclass

from tvm_fusionx.apps.generate import GenerationStats, generate
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.errors import InputError

# Longer answers to such questions are stories.
MOST_TOKENS = 32

REQUEST = (
    "Read the passage and answer the question with a few words copied from the passage.\n\n"
    "Passage: {passage}\n\nQuestion: {question}"
)

WORD = re.compile(r"\w+")

# Share of an answer's words that the place in the passage must have.
LEAST_OVERLAP = 0.5

# More words than these are a sentence around the few words of an answer.
FEW_WORDS = 4


@dataclass(frozen=True)
class Answer:
    """An answer, and where the passage has it."""

    text: str
    """What the model says, or the passage at the place found."""
    start: int | None
    """Its first character in the passage; None where it is not there."""
    end: int | None
    """Behind its last character."""
    milliseconds: float
    """From the question to the answer."""


def ask(model: TextModel, passage: str, question: str) -> Answer:
    """Answer a question from a passage.

    Raises
    ------
    InputError
        Either is empty, or both are too long for the model.
    """
    check_asked(passage, question)
    content = REQUEST.format(passage=passage.strip(), question=question.strip())
    prompt = model.tokenizer.chat([{"role": "user", "content": content}])
    stats = GenerationStats()
    pieces = generate(model, prompt, max_tokens=MOST_TOKENS, stops=["\n"], stats=stats)
    said = "".join(pieces).strip()
    place = align(said, passage)
    start, end = place if place is not None else (None, None)
    took = 1e3 * (stats.prompt_seconds + stats.decode_seconds)
    return Answer(passage[start:end] if place is not None else said, start, end, took)


def check_asked(passage: str, question: str) -> None:
    """Raise InputError where a passage or a question is empty."""
    for name, text in (("passage", passage), ("question", question)):
        if not text.strip():
            raise InputError(
                name, expected="some text", found="none", next_step="Give one that is not empty."
            )


def align(said: str, passage: str) -> tuple[int, int] | None:
    """Return where a passage says what was said, or None where it does not.

    The words themselves where they are there; else the longest run of them that both have, and the
    words of the answer around it. At least half of the answer's words must be there.
    """
    words = [(match.group().casefold(), match.span()) for match in WORD.finditer(passage)]
    wanted = [match.group().casefold() for match in WORD.finditer(said)]
    if not wanted or not words:
        return None
    held = [word for word, _ in words]
    matcher = difflib.SequenceMatcher(None, held, wanted, autojunk=False)
    match = matcher.find_longest_match()
    if not match.size:
        return None
    first, last = match.a, match.a + match.size
    # What of the answer's other words stands right beside.
    others = Counter(wanted) - Counter(held[first:last])
    while first > 0 and others[held[first - 1]]:
        first -= 1
        others[held[first]] -= 1
    while last < len(held) and others[held[last]]:
        others[held[last]] -= 1
        last += 1
    if match.size < LEAST_OVERLAP * min(len(wanted), FEW_WORDS):
        return None
    return words[first][1][0], words[last - 1][1][1]
