"""A language model of no weights: it says a given answer, or anything, the same each time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tvm_fusionx.apps.tokenizer import Tokenizer, byte_letters

Array = np.ndarray[Any, Any]

MERGES = ("r e", "re d", "t e", "a m", "te am", "w o", "wo n", "\u0120 red", "2 0")
END = "<|end|>"


def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer of bytes and a few words, that can cut any text."""
    tokenizers = pytest.importorskip("tokenizers")
    words = [*byte_letters().values(), *(merge.replace(" ", "") for merge in MERGES)]
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(
            vocab={word: at for at, word in enumerate(words)},
            merges=[tuple(merge.split(" ")) for merge in MERGES],
        )
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.add_special_tokens([tokenizers.AddedToken(END, special=True, normalized=False)])
    template = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    return Tokenizer(made.to_str(), None, (len(words),), template)


class FakeReader:
    """Says what is likely by all tokens so far; counts what it reads.

    Parameters
    ----------
    seed
        Of its logits; None makes it say `answer`, and then the end.
    """

    def __init__(self, seed: int | None, answer: str = "") -> None:
        self.tokenizer = byte_tokenizer()
        self._seed = seed
        self._answer = [*self.tokenizer.encode(answer), self.tokenizer.ends[0]]
        self._prompt = 0
        self.tokens: list[int] = []
        self.reads = 0

    def restart(self) -> None:
        """Forget all."""
        self.tokens = []

    def rewind(self, position: int) -> None:
        """Forget the last."""
        assert position <= len(self.tokens)
        del self.tokens[position:]

    def read(self, tokens: Sequence[int]) -> Array:
        """Return logits."""
        assert tokens
        if not self.tokens:
            self._prompt = len(tokens)
        self.tokens += tokens
        self.reads += len(tokens)
        said = self.tokens[self._prompt :]
        if self._seed is not None:
            draw = np.random.default_rng([self._seed, *said])
            return draw.normal(0, 3, self.tokenizer.size).astype("float32")
        logits = np.zeros(self.tokenizer.size, "float32")
        if said == self._answer[: len(said)] and len(said) < len(self._answer):
            logits[self._answer[len(said)]] = 20
        return logits
