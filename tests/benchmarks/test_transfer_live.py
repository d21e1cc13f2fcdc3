"""What a session had saved after each trial, read from its journal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.tuning.cost_model import TaskFeatures
from tvm_fusionx.tuning.journal import Journal
from tvm_fusionx.tuning.outcome import Outcome

live = script("transfer_live")

DEFAULT = {"rows": 1}
FEATURES = TaskFeatures("dot", DEFAULT, {"rows": 32}, 1e6, 1)


def _try(journal: Journal, key: str, rows: int, seconds: float | None) -> None:
    trial = journal.start(key, "dot", {"rows": rows})
    failed = Outcome(failure="wrong result")
    journal.end(trial, failed if seconds is None else Outcome(seconds=(seconds, 2 * seconds)))


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, object]]:
    """Lines of a session of another model, and of one with two blocks."""
    with Journal(tmp_path / "one.jsonl", "llvm", "board") as journal:
        journal.begin_session({"model": "other"})
        journal.add_task("other", FEATURES.to_json())
        _try(journal, "other", 1, 100.0)
        _try(journal, "other", 2, 1.0)
        journal.end_session()
        journal.begin_session({"model": "this"})
        for key, seconds in (("first", 8.0), ("second", 5.0)):
            journal.add_task(key, FEATURES.to_json())
            _try(journal, key, 1, seconds)
        _try(journal, "first", 2, 9.0)
        _try(journal, "first", 4, 6.0)
        _try(journal, "second", 2, None)
        _try(journal, "second", 4, 4.0)
    return list(live.rows_of(tmp_path))


def test_each_trial_saves_what_its_block_gains_wherever_it_is(
    rows: list[dict[str, object]],
) -> None:
    untuned, saved = live.saved_by_trial(rows, {"first": 1, "second": 10})
    assert untuned == 8 + 10 * 5
    assert saved == [0, 2, 2, 2 + 10]


def test_a_default_timed_again_saves_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path / "one.jsonl", "llvm", "board") as journal:
        journal.begin_session({"model": "this"})
        journal.add_task("only", FEATURES.to_json())
        _try(journal, "only", 1, 8.0)
        _try(journal, "only", 1, 7.0)
        _try(journal, "only", 2, 7.5)
    assert live.saved_by_trial(live.rows_of(tmp_path), {"only": 1}) == (8.0, [0.5])


def test_what_teaches_is_a_journal_without_the_blocks_that_the_model_has_too(
    rows: list[dict[str, object]], tmp_path: Path
) -> None:
    left = tmp_path / "left.jsonl"
    kept = live.without(rows, {"first", "other"})
    left.write_text("".join(json.dumps(row) + "\n" for row in kept))
    with Journal(left, "llvm", "board") as journal:
        history = [(choice, outcome.seconds) for _, _, choice, outcome in journal.history()]
    assert history == [({"rows": 1}, (5.0, 10.0)), ({"rows": 2}, ()), ({"rows": 4}, (4.0, 8.0))]


def test_runs_are_compared_at_what_the_least_of_them_saved() -> None:
    alone = live.Run("from nothing", 0, 1.0, (0.0, 0.0, 0.1, 0.1))
    taught = live.Run("taught", 0, 1.0, (0.1, 0.1, 0.1, 0.2))
    assert alone.until(0.2) is None
    lines = live.table([alone, taught]).splitlines()[1:]
    assert ["100.000 ms after 3" in lines[0], "100.000 ms after 1" in lines[1]] == [True, True]
