"""Text that goes on: prompt in, pieces of text out as they come, and how long they took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_fusionx.apps.sampling import Sampler, Sampling
from tvm_fusionx.apps.streaming import TextStream
from tvm_fusionx.apps.text_model import TextModel
from tvm_fusionx.apps.tokenizer import Tokenizer
from tvm_fusionx.errors import InputError

# The likeliest token, always.
GREEDY = Sampling()


@dataclass
class GenerationStats:
    """What a text took."""

    prompt_tokens: int = 0
    new_tokens: int = 0
    prompt_seconds: float = 0.0
    """From the prompt to the logits of the first token."""
    decode_seconds: float = 0.0
    """From there to the last token."""
    ended_by: str = "length"
    """``"length"``, ``"end"`` (the model's own mark) or ``"stop"`` (a stop word)."""

    @property
    def prompt_rate(self) -> float:
        """Prompt tokens a second."""
        return self.prompt_tokens / self.prompt_seconds if self.prompt_seconds else 0.0

    @property
    def decode_rate(self) -> float:
        """New tokens a second, behind the first."""
        steps = self.new_tokens - 1
        return steps / self.decode_seconds if self.decode_seconds and steps > 0 else 0.0


def generate(
    model: TextModel,
    prompt: str,
    *,
    max_tokens: int = 128,
    sampling: Sampling = GREEDY,
    stops: Sequence[str] | str = (),
    stats: GenerationStats | None = None,
) -> Iterator[str]:
    """Go on with a text.

    Parameters
    ----------
    model
        It forgets what it read before.
    prompt
        The text so far; marks of a chat count as such.
    max_tokens
        How many tokens at most.
    sampling
        How each is chosen.
    stops
        Words at which the text ends, or one.
    stats
        Filled as the text comes.

    Yields
    ------
    str
        What is new: whole characters.

    Raises
    ------
    InputError
        The prompt is empty, or both together are longer than the largest cache.
    """
    stats = GenerationStats() if stats is None else stats
    tokens = prompt_tokens(model.tokenizer, prompt)
    model.restart()
    model.reserve(len(tokens) + max_tokens)
    words = [stops] if isinstance(stops, str) else stops
    stream, sampler = TextStream(words), Sampler(sampling)
    stats.prompt_tokens = len(tokens)
    start = time.perf_counter()
    logits = model.read(tokens)
    first = time.perf_counter()
    stats.prompt_seconds = first - start
    while stats.new_tokens < max_tokens:
        token = sampler.choose(logits, tokens)
        stats.new_tokens += 1
        if token in model.tokenizer.ends:
            stats.ended_by = "end"
            break
        tokens.append(token)
        shown = stream.feed(model.tokenizer.piece(token))
        stats.decode_seconds = time.perf_counter() - first
        if shown:
            yield shown
        if stream.is_stopped:
            stats.ended_by = "stop"
            return
        if stats.new_tokens < max_tokens:
            logits = model.read([token])
    stats.decode_seconds = time.perf_counter() - first
    rest = stream.feed(b"", final=True)
    if rest:
        yield rest


def prompt_tokens(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Return the tokens of a prompt.

    Raises
    ------
    InputError
        There is none.
    """
    tokens = tokenizer.encode(prompt)
    if not tokens:
        raise InputError(
            "prompt",
            expected="at least one token",
            found="none",
            next_step="Give a prompt that is not empty.",
        )
    return tokens
