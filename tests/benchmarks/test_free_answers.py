"""Words that a model says are found again in their passage, or nowhere."""

from __future__ import annotations

import pytest

from tests.benchmarks.scripts import script

align = script("free_answers").align

PASSAGE = "The Panthers beat the Denver Broncos, 24-10, in Santa Clara, California, in February."


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("Santa Clara", "Santa Clara"),
        ("santa clara, California.", "Santa Clara, California"),
        ("The game was played in Santa Clara, California.", "in Santa Clara, California"),
        ("24-10", "24-10"),
        ("Denver Broncos, the", "the Denver Broncos"),
        ("February", "February"),
    ],
)
def test_words_are_found(said: str, found: str) -> None:
    place = align(said, PASSAGE)
    assert place is not None
    assert PASSAGE[slice(*place)] == found


@pytest.mark.parametrize("said", ["", "?!", "London", "A game of chess in old London town"])
def test_other_words_are_not(said: str) -> None:
    assert align(said, PASSAGE) is None
    assert align(said, "") is None
