"""The span of a passage that a language model would most likely say after a prompt.

A span's score is the logarithm of the chance that the model says its tokens, and then that the
answer is over. Each further token only lowers it, so the likeliest beginning is always the next to
be read, until none is likelier than the best whole span: that is the best of all, and few are read.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

import numpy as np

from tvm_fusionx.apps.tokenizer import Tokenizer

Array = np.ndarray[Any, Any]

# Words; a number is one with its point, its commas and the signs that belong to it.
WORD = re.compile(r"[$£€]?\w+(?:[.,]\d+)*%?")

# Longer answers are told, not named. No word of an answer has more characters than these.
MOST_TOKENS = 24
MOST_CHARACTERS = 160

# With what the text goes on behind a whole answer, beside the model's own mark.
BEHIND = (b".", b",", b"\n")


class Reader(Protocol):
    """A language model with a cache, such as :class:`tvm_fusionx.apps.text_model.TextModel`."""

    tokenizer: Tokenizer

    def restart(self) -> None:
        """Forget what was read."""

    def rewind(self, position: int) -> None:
        """Forget all but some tokens."""

    def read(self, tokens: Sequence[int]) -> Array:
        """Return the logits of what follows."""


@dataclass(frozen=True)
class LikelySpan:
    """A span, and how likely it is."""

    start: int
    """Its first character in the passage."""
    end: int
    """Behind its last."""
    score: float
    """Logarithm of its chance."""


def likeliest_span(
    model: Reader,
    prompt: str,
    passage: str,
    is_stopped: Callable[[], bool] | None = None,
) -> LikelySpan | None:
    """Return the likeliest answer that the passage has; None where it has no word.

    Parameters
    ----------
    model
        It forgets what it read before.
    prompt
        The answer follows it behind a space.
    passage
        What is looked for begins and ends at the passage's words.
    is_stopped
        Asked between tokens; once it says True, the best so far is returned.
    """
    words = [match.span() for match in WORD.finditer(passage)]
    ends = {end for _, end in words}
    parts = [_parts(model.tokenizer, passage, start) for start, _ in words]
    after = _Continuations(model, prompt)
    is_over = _over(model.tokenizer)
    best: LikelySpan | None = None
    # Beginnings, the likeliest first: score, its tokens, and the numbers of words that begin so.
    begun: list[tuple[float, tuple[int, ...], list[int]]] = []

    def go_on(said: tuple[int, ...], score: float, numbers: Sequence[int], chances: Array) -> None:
        further: dict[int, list[int]] = {}
        for number in numbers:
            if len(parts[number]) > len(said):
                further.setdefault(parts[number][len(said)][0], []).append(number)
        for token, those in further.items():
            heapq.heappush(begun, (-score - float(chances[token]), (*said, token), those))

    go_on((), 0.0, range(len(words)), after(()))
    while begun and not (is_stopped is not None and is_stopped()):
        negative, said, numbers = heapq.heappop(begun)
        if best is not None and -negative <= best.score:
            break
        chances = after(said)
        whole = float(np.logaddexp.reduce(chances[is_over])) - negative
        places = [(words[each][0], parts[each][len(said) - 1][1]) for each in numbers]
        found = [LikelySpan(start, end, whole) for start, end in places if end in ends]
        if found and (best is None or whole > best.score):
            best = found[0]
        go_on(said, -negative, numbers, chances)
    return best


def _parts(tokenizer: Tokenizer, passage: str, start: int) -> list[tuple[int, int]]:
    """Return the tokens from a place on, each with the place behind it; -1 within a character."""
    # What is cut off at the end may change the last word's tokens: it is not used.
    text = " " + passage[start : start + MOST_CHARACTERS]
    parts = tokenizer.parts(text)[:MOST_TOKENS]
    followed = [*(end for _, end in parts[1:]), None]
    return [
        (token, -1 if end == next_end else start + end - 1)
        for (token, end), next_end in zip(parts, followed, strict=True)
    ]


class _Continuations:
    """What follows a prompt and some tokens: what the cache holds of them is not read again."""

    def __init__(self, model: Reader, prompt: str) -> None:
        self._model = model
        self._prompt = model.tokenizer.encode(prompt)
        self._held: tuple[int, ...] | None = None

    def __call__(self, said: tuple[int, ...]) -> Array:
        """Return the logarithms of chances; at least the last token is read."""
        if self._held is None:
            self._model.restart()
            logits = self._model.read([*self._prompt, *said])
        else:
            common = sum(1 for _ in _shared(self._held, said[:-1]))
            self._model.rewind(len(self._prompt) + common)
            logits = self._model.read(list(said[common:]))
        self._held = said
        numbers = logits.astype("float64")
        numbers -= numbers.max()
        found: Array = numbers - np.log(np.exp(numbers).sum())
        return found


def _shared(one: Sequence[int], other: Sequence[int]) -> Iterator[int]:
    for left, right in zip(one, other, strict=False):
        if left != right:
            return
        yield left


@lru_cache(maxsize=4)
def _over(tokenizer: Tokenizer) -> Array:
    """Return the tokens behind a whole answer."""
    found = [
        token
        for token in range(tokenizer.size)
        if token in tokenizer.ends or tokenizer.piece(token).startswith(BEHIND)
    ]
    return np.asarray(found, "int64")
