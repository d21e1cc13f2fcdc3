"""The likeliest span is that which looking at all spans finds; few are looked at."""

from __future__ import annotations

import numpy as np
import pytest

from tests.apps.fake_reader import FakeReader
from tvm_fusionx.apps.likely_spans import BEHIND, MOST_TOKENS, WORD, LikelySpan, likeliest_span

PASSAGE = (
    "The red team won 20% (or $2,020.5) in K\u00f6ln, "
    "the \u201cred\u201d town.\nred: \U0001f600 won"
)
PROMPT = "who won"


def _all_spans(model: FakeReader, passage: str) -> list[LikelySpan]:
    """Return every span with its score, computed token by token from the prompt on."""
    tokenizer = model.tokenizer
    over = [
        token
        for token in range(tokenizer.size)
        if token in tokenizer.ends or tokenizer.piece(token)[:1] in BEHIND
    ]
    prompt = tokenizer.encode(PROMPT)
    words = [match.span() for match in WORD.finditer(passage)]
    found = []
    for start, _ in words:
        for _, end in words:
            said = tokenizer.encode(" " + passage[start:end])
            if end <= start or len(said) > MOST_TOKENS:
                continue
            score, known = 0.0, list(prompt)
            for token in [*said, None]:
                model.restart()
                logits = model.read(prompt).astype("float64")
                if known[len(prompt) :]:
                    logits = model.read(known[len(prompt) :]).astype("float64")
                chances = logits - np.logaddexp.reduce(logits)
                if token is None:
                    score += np.logaddexp.reduce(chances[over])
                else:
                    score += chances[token]
                    known.append(token)
            found.append(LikelySpan(start, end, float(score)))
    return found


@pytest.mark.parametrize("seed", range(6))
def test_no_span_is_likelier(seed: int) -> None:
    expected = max(_all_spans(FakeReader(seed), PASSAGE), key=lambda span: span.score)
    model = FakeReader(seed)
    found = likeliest_span(model, PROMPT, PASSAGE)
    assert found is not None
    assert (found.start, found.end) == (expected.start, expected.end)
    assert found.score == pytest.approx(expected.score, abs=1e-4)


@pytest.mark.parametrize(
    "said",
    ["red team", "20%", "$2,020.5", "K\u00f6ln", "town", "won 20% (or"],
)
def test_what_the_model_wants_to_say_is_found_and_little_else_read(said: str) -> None:
    model = FakeReader(None, f" {said}")
    found = likeliest_span(model, PROMPT, PASSAGE)
    assert found is not None
    assert PASSAGE[found.start : found.end] == said
    least = len(model.tokenizer.encode(PROMPT)) + len(model.tokenizer.encode(f" {said}"))
    assert model.reads == least


def test_a_number_is_not_cut() -> None:
    found = likeliest_span(FakeReader(None, " 2"), PROMPT, "It is 2,020.5 km long.")
    assert found is not None
    assert (found.start, found.end) != (6, 7)


def test_what_the_passage_lacks_is_never_said() -> None:
    found = likeliest_span(FakeReader(None, " London"), PROMPT, PASSAGE)
    assert found is not None
    assert found.start < found.end <= len(PASSAGE)
    assert likeliest_span(FakeReader(0), PROMPT, "?! ...") is None


def test_a_long_passage_is_read_from_any_of_its_words() -> None:
    passage = "a b c. " * 400 + "red team."
    found = likeliest_span(FakeReader(None, " red team"), PROMPT, passage)
    assert found is not None
    assert passage[found.start : found.end] == "red team"


def test_a_stop_ends_it_with_the_best_so_far() -> None:
    model = FakeReader(1)
    assert likeliest_span(model, PROMPT, PASSAGE, lambda: True) is None
    assert model.reads == len(model.tokenizer.encode(PROMPT))
