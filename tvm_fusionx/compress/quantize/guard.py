"""Keep in float the layers that cost most, until the model is as good as it must be.

First all units are integers. If that costs too much, each unit is tried alone, all others in float,
and they are ranked by what it costs; the fewest from the top of that list that must stay in float
are found by halving; then each of these is tried as integers again. Every model that is given back
was scored itself: ranks only say what to try.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm_fusionx.compress.quantize.calibrate import Stage
from tvm_fusionx.compress.quantize.journal import TrialJournal
from tvm_fusionx.compress.quantize.score import Judge, Score
from tvm_fusionx.errors import InputError

Write = Callable[[Collection[str]], Any]
"""From the units that are quantised to the model."""

# What units are that are changed, and that are not, as stages tell it.
WORDS = "as integers", "in float"


@dataclass(frozen=True)
class Guarded:
    """What the guard decided.

    Attributes
    ----------
    active
        The units that are quantised.
    score, full_score
        Of that model, and of the one in which all units are, None where time ended before.
    alone
        The score of each unit quantised alone, of those that were tried.
    is_out_of_time
        Whether the budget ended the search.
    trials
        Models scored, those of an earlier run included.
    """

    active: frozenset[str]
    score: Score
    full_score: Score | None
    alone: Mapping[str, Score]
    is_out_of_time: bool
    trials: int


class _OutOfTimeError(Exception):
    """The budget is spent."""


def guard(
    names: Sequence[str],
    write: Write,
    judge: Judge,
    journal: TrialJournal,
    *,
    max_drop: float,
    budget_seconds: float | None = None,
    on_stage: Stage,
    clock: Callable[[], float] = time.monotonic,
    words: tuple[str, str] = WORDS,
) -> Guarded:
    """Return the units to quantise so that the model costs at most `max_drop`.

    Parameters
    ----------
    names
        All units that may be quantised.
    max_drop
        In the metric's unit, or of the divergence.
    budget_seconds
        After which no trial begins; the best model so far is taken, in float if none was good.
    words
        What layers are that are changed, and that are not, for `on_stage`.

    Raises
    ------
    InputError
        `max_drop` is negative.
    """
    if not max_drop >= 0:
        raise InputError(
            "max_drop",
            expected="a number from 0 on, in the metric's unit",
            found=repr(max_drop),
            next_step="Give 0.01 for one hundredth.",
        )
    search = _Search(write, judge, journal, max_drop, on_stage)
    search.clock, search.deadline = clock, None
    search.words = words
    if budget_seconds is not None:
        search.deadline = clock() + budget_seconds
    full: Score | None = None
    is_out_of_time = False
    try:
        full = search.score(names, f"all layers {words[0]}")
        if not search.is_good(full):
            _narrow(search, names)
    except _OutOfTimeError:
        is_out_of_time = True
    active, score = search.best
    return Guarded(active, score, full, search.alone, is_out_of_time, len(journal))


class _Search:
    def __init__(
        self, write: Write, judge: Judge, journal: TrialJournal, max_drop: float, on_stage: Stage
    ) -> None:
        self.write, self.judge, self.journal = write, judge, journal
        self.max_drop, self.on_stage = max_drop, on_stage
        self.alone: dict[str, Score] = {}
        self.best: tuple[frozenset[str], Score] = (frozenset(), judge.float_score)
        self.clock: Callable[[], float] = time.monotonic
        self.deadline: float | None = None
        self.words = WORDS

    def is_good(self, score: Score) -> bool:
        return self.judge.drop(score) <= self.max_drop

    def score(self, active: Collection[str], stage: str) -> Score:
        """Return the score of a model, known or new; keep the best that is good enough."""
        if not active:
            return self.judge.float_score
        known = self.journal.get(active)
        if known is None:
            if self.deadline is not None and self.clock() >= self.deadline:
                raise _OutOfTimeError
            self.on_stage(stage)
            known = self.judge.score(self.write(active))
            self.journal.add(active, known)
        if self.is_good(known):
            rank = len(active), -known.divergence
            if rank > (len(self.best[0]), -self.best[1].divergence):
                self.best = frozenset(active), known
        return known


def _narrow(search: _Search, names: Sequence[str]) -> None:
    """Find the fewest units to keep in float."""
    for number, name in enumerate(names):
        stage = f"each layer alone, {number + 1} of {len(names)}"
        search.alone[name] = search.score([name], stage)
    ranked = sorted(names, key=lambda name: _cost(search, name), reverse=True)
    # Halving: with `few` in float it is not good enough, with `many` it is.
    few, many = 0, len(ranked)
    while many - few > 1:
        middle = (few + many) // 2
        score = search.score(ranked[middle:], f"{middle} of {len(ranked)} layers {search.words[1]}")
        few, many = (few, middle) if search.is_good(score) else (middle, many)
    kept = ranked[:many]
    for number, name in enumerate(reversed(list(kept))):
        fewer = [each for each in kept if each != name]
        active = [each for each in ranked if each not in fewer]
        if search.is_good(search.score(active, f"giving back, {number + 1} of {many}")):
            kept = fewer


def _cost(search: _Search, name: str) -> tuple[float, float]:
    """Return what a unit alone costs; of those that a coarse metric calls equal, by divergence."""
    score = search.alone[name]
    return search.judge.drop(score), score.divergence
