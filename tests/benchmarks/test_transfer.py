"""What older sessions would have saved a first one, read from their journals."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.tuning.cost_model import TaskFeatures
from tvm_fusionx.tuning.journal import Journal
from tvm_fusionx.tuning.outcome import Outcome

transfer = script("transfer")

SIZES = (1, 2, 4, 8, 16, 32)


def _session(
    journal: Journal, model: str, flops: float, seconds: Callable[[int, int], float | None]
) -> None:
    """Try every pair of sizes of one block of `flops`; the default, 1 and 1, twice; None fails."""
    key = f"{model} block"
    features = TaskFeatures("dot", {"rows": 1, "columns": 1}, {"rows": 32, "columns": 32}, flops, 1)
    journal.begin_session({"model": model})
    journal.add_task(key, features.to_json())
    for rows, columns in [(1, 1), *((a, b) for a in SIZES for b in SIZES)]:
        trial = journal.start(key, "dot", {"rows": rows, "columns": columns})
        taken = seconds(rows, columns)
        failed = Outcome(failure="wrong result")
        journal.end(trial, failed if taken is None else Outcome(seconds=(taken, 2 * taken)))


def _sessions(path: Path, *trials: tuple[str, float, Callable[[int, int], float | None]]) -> Any:
    with Journal(path / "journal" / "one.jsonl", "llvm", "board") as journal:
        for model, flops, seconds in trials:
            _session(journal, model, flops, seconds)
    return transfer.sessions_of(transfer.rows_of(path / "journal"))


def _slowness(rows: int, columns: int) -> float | None:
    """Best at 16 by 4, and by far; what is too large for the registers fails."""
    if rows * columns > 256:
        return None
    return 1 + abs(math.log2(rows / 16)) + abs(math.log2(columns / 4))


def test_sessions_are_read_with_their_defaults_and_candidates(tmp_path: Path) -> None:
    first, second = _sessions(tmp_path, ("a", 1e6, _slowness), ("b", 4e6, _slowness))
    assert (first.model, second.model) == ("a", "b")
    (block,) = first.blocks.values()
    assert block.default_seconds == 7
    assert len(block.candidates) == len(SIZES) ** 2 - 1
    assert sum(math.isinf(seconds) for _, seconds in block.candidates) == 3


def test_what_behaves_alike_saves_trials(tmp_path: Path) -> None:
    first, *later = _sessions(tmp_path, ("a", 1e6, _slowness), ("b", 4e6, _slowness))
    (found,) = transfer.needed(first, later)
    assert (found.template, found.candidates) == ("dot", 35)
    # One of 35 is good.
    assert found.random == 18
    assert found.ranked <= 3


def test_what_behaves_otherwise_saves_none(tmp_path: Path) -> None:
    def opposite(rows: int, columns: int) -> float:
        return 20 - (_slowness(rows, columns) or 0)

    first, *later = _sessions(tmp_path, ("a", 1e6, _slowness), ("b", 4e6, opposite))
    (found,) = transfer.needed(first, later)
    assert found.ranked > found.random


def test_only_other_models_and_other_blocks_teach(tmp_path: Path) -> None:
    first, *later = _sessions(tmp_path, ("a", 1e6, _slowness), ("a", 1e6, _slowness))
    assert transfer.needed(first, later) == []


@pytest.mark.parametrize(("seconds", "count"), [([4.0, 2.0, 1.04, 1.0], 3), ([1.0, 9.0], 1)])
def test_near_is_within_a_twentieth_of_the_best(seconds: list[float], count: int) -> None:
    assert transfer.until_near(seconds) == count


def test_the_summary_counts_each_block_once_whatever_its_size() -> None:
    found = [transfer.Needed("dot", 99, 10, 40.0), transfer.Needed("rows", 16, 4, 4.0)]
    assert transfer.summary("a", found) == (
        "a: 2 blocks, 115 candidates; until near the best of each, 14 trials in the order that "
        "other models teach and 44 in a random one; 2.00 times fewer for a block; "
        "medians 7 and 22.0"
    )
