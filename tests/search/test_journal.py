from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from tests.search.small_spaces import transformers
from tvm_fusionx.errors import RecordError
from tvm_fusionx.search.journal import (
    CUT_SHORT,
    FILE,
    MOST_ATTEMPTS,
    MOST_CUT_SHORT,
    Result,
    SearchJournal,
)
from tvm_fusionx.search.space import Candidate

ONE, TWO = (transformers().sample(random.Random(seed)) for seed in (0, 1))


def _opened(folder: Path, training: str = "t") -> SearchJournal:
    return SearchJournal(folder, "s", training)


def _result(candidate: Candidate, share: float = 1.0) -> Result:
    return Result(candidate, share, 0.75, 120.5, 3.0, details={"epochs": 2})


def test_what_ended_is_known_afterwards(tmp_path: Path) -> None:
    slow = Result(TWO, latency_us=9e9, failure="slower than the limit")
    with _opened(tmp_path) as journal:
        journal.end(journal.start(ONE), _result(ONE))
        journal.end(journal.start(ONE, 0.5), _result(ONE, 0.5))
        journal.add(slow)
    with _opened(tmp_path) as journal:
        assert journal.result(ONE) == _result(ONE)
        assert journal.result(ONE, 0.5) == _result(ONE, 0.5)
        assert journal.result(TWO, 0.5) is None
        found = journal.result(TWO)
        assert found is not None
        assert math.isnan(found.accuracy)
        assert found.failure == slow.failure
        assert [each.share for each in journal.results()] == [1.0, 0.5, 1.0]
        assert journal.latency_us(TWO) == 9e9
        assert journal.trained_seconds == 6.0


def test_what_a_launch_adds_is_kept(tmp_path: Path) -> None:
    with _opened(tmp_path) as journal:
        assert journal.launch_us is None
        journal.keep_launch(-0.25)
    with _opened(tmp_path) as journal:
        assert journal.launch_us == -0.25


def test_a_latency_without_end_is_kept(tmp_path: Path) -> None:
    with _opened(tmp_path) as journal:
        journal.add(Result(ONE, failure="cannot be built"))
    with _opened(tmp_path) as journal:
        assert journal.latency_us(ONE) == math.inf
        assert journal.latency_us(TWO) is None


def test_a_latency_that_was_asked_for_is_no_result(tmp_path: Path) -> None:
    with _opened(tmp_path) as journal:
        journal.keep_latency(ONE, 12.5)
        journal.keep_latency(TWO, math.inf)
    with _opened(tmp_path) as journal:
        assert journal.latency_us(ONE) == 12.5
        assert journal.latency_us(TWO) == math.inf
        assert journal.result(ONE) is None
        assert journal.results() == []


def test_a_trial_that_fails_is_tried_again_but_not_for_ever(tmp_path: Path) -> None:
    with _opened(tmp_path) as journal:
        for attempt in range(MOST_ATTEMPTS):
            assert journal.result(ONE) is None
            journal.fail(journal.start(ONE), f"reason {attempt}")
        found = journal.result(ONE)
        assert found is not None
        assert found.failure == f"{MOST_ATTEMPTS} times: reason {MOST_ATTEMPTS - 1}"
        assert journal.reasons(ONE) == [f"reason {n}" for n in range(MOST_ATTEMPTS)]
        assert journal.result(ONE, 0.5) is None


def test_a_search_that_ends_holds_little_against_its_trials(tmp_path: Path) -> None:
    for number in range(MOST_CUT_SHORT):
        with _opened(tmp_path) as journal:
            assert journal.result(ONE) is None
            assert journal.reasons(ONE) == [CUT_SHORT] * number
            journal.start(ONE)
    with _opened(tmp_path) as journal:
        found = journal.result(ONE)
        assert found is not None
        assert CUT_SHORT in found.failure


def test_a_journal_of_another_search_is_refused(tmp_path: Path) -> None:
    _opened(tmp_path).close()
    with pytest.raises(RecordError, match=r"search journal.*Give another folder"):
        _opened(tmp_path, "other")


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "unknown"}',
        '{"event": "end", "trial": 7}',
        '{"event": "fail", "trial": 7, "reason": ""}',
        "[]",
    ],
)
def test_a_damaged_journal_is_told(tmp_path: Path, line: str) -> None:
    _opened(tmp_path).close()
    with (tmp_path / FILE).open("a") as file:
        file.write(line + "\n")
    with pytest.raises(RecordError, match="line 2"):
        _opened(tmp_path)


def test_a_trial_that_ends_as_another_is_a_damage(tmp_path: Path) -> None:
    with _opened(tmp_path) as journal, pytest.raises(ValueError, match="as another"):
        journal.end(journal.start(ONE), _result(TWO))
