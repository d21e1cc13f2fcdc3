"""What two tuning sessions needed, read from their journals."""

from __future__ import annotations

import math
from pathlib import Path

from tests.benchmarks.scripts import script
from tvm_fusionx.tuning.journal import Journal, Outcome

transfer = script("transfer")

KEY = "block"


def _session(journal: Journal, seconds: list[float | None]) -> None:
    """Time the default, 2 s, twice, and then a candidate for each of `seconds`; None fails."""
    journal.begin_session({"model": "pretended"})
    for default in (2.5, 2.0):
        journal.end(journal.start(KEY, "dot", {"rows": 0}), Outcome(seconds=(default, 9.0)))
    for place, each in enumerate(seconds, 1):
        outcome = Outcome(failure="wrong result") if each is None else Outcome(seconds=(each,))
        journal.end(journal.start(KEY, "dot", {"rows": place}), outcome)


def _times(path: Path, *sessions: list[float | None]) -> dict[str, list[float]]:
    with Journal(path / "journal" / "one.jsonl", "llvm", "board") as journal:
        for seconds in sessions:
            _session(journal, seconds)
    times: dict[str, list[float]] = transfer.times_of_last_session(
        list(transfer.rows_of(path / "journal"))
    )
    return times


def test_only_the_last_session_counts_and_the_least_time_of_its_default(tmp_path: Path) -> None:
    assert _times(tmp_path, [1.0, 1.5], [3.0, None]) == {KEY: [2.0, 3.0, math.inf]}


def test_trials_are_counted_until_one_is_near_the_best_of_both(tmp_path: Path) -> None:
    slow: list[float | None] = [4.0, 4.0, None, 3.0, 4.0, 1.9, 1.04, 1.0]
    warm: list[float | None] = [1.5, 1.02, *[4.0] * 6]
    found = transfer.compare(_times(tmp_path / "cold", slow), _times(tmp_path / "warm", warm))
    assert found[KEY]["cold"] == transfer.Needed(8, 7, (2.0, 2.0, 1.5, 0.5))
    assert found[KEY]["warm"] == transfer.Needed(8, 2, (0.75, 0.51, 0.51, 0.51))


def test_a_default_that_nothing_beats_is_the_best(tmp_path: Path) -> None:
    cold = _times(tmp_path / "cold", [4.0] * 8)
    warm = _times(tmp_path / "warm", [2.05, *[4.0] * 7])
    found = transfer.compare(cold, warm)
    assert found[KEY]["cold"].until_near is None
    assert found[KEY]["warm"].until_near == 1


def test_a_block_with_few_candidates_tells_nothing(tmp_path: Path) -> None:
    few = _times(tmp_path / "cold", [1.0] * (transfer.FEWEST - 1))
    many = _times(tmp_path / "warm", [1.0] * transfer.FEWEST)
    assert transfer.compare(few, many) == {}
