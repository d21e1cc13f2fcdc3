from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.scripts import script

torch = pytest.importorskip("torch", reason="torch is not installed")
search_composed = script("search_composed")

SMALL: dict[str, Any] = {
    **search_composed.SPACE,
    "tokens": 8,
    "vocabulary": 20,
    "classes": 3,
    "hidden": [16],
    "feed_forward": [16, 32],
}


def test_networks_are_put_together_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_composed, "SPACE", SMALL)
    monkeypatch.setattr(search_composed, "JUDGED_EVERY", 2)
    generator = np.random.default_rng(0)
    ids = generator.integers(2, 20, (200, 8))
    np.savez(tmp_path / "data.npz", train_ids=ids, train_labels=ids[:, 0] % 3)
    words = [str(tmp_path / "out"), "--data", str(tmp_path / "data.npz"), "--networks", "3"]
    words += ["--steps", "12", "--block-steps", "4", "--blocks", "2"]
    search_composed.main(words)
    report = tmp_path / "out" / "results.json"
    found = json.loads(report.read_text())
    assert found["networks"] == len(found["rows"]) == 3
    assert found["steps_anew"] == 36
    assert found["block_steps"] == 4 * len(found["blocks"]) > 0
    assert found["cpu_seconds_composed"] > found["block_cpu_seconds"] > 0
    for row in found["rows"]:
        assert sum(row["layers_from"]) == 4
        # The embedding and the last layer are always the teacher's.
        assert row["layers_from"][0] >= 2
        for side in ("composed", "inherited"):
            is_reached = row[side]["accuracy"] >= row["anew"]["accuracy"]
            assert is_reached or row[side]["steps"] == 12
    # Where no layer is of a block, the two sides are one training.
    told = [row for row in found["rows"] if row["layers_from"][1] == 0]
    assert all(row["composed"]["steps"] == row["inherited"]["steps"] for row in told)
    assert found["steps_inherited"] == sum(row["inherited"]["steps"] for row in found["rows"])
    search_composed.main(words)
    again = json.loads(report.read_text())
    assert again["rows"] == found["rows"]


def test_the_teacher_is_not_explored() -> None:
    space = search_composed.parse_space(SMALL)
    candidates = search_composed.explored(space, 100, 0)
    assert len(candidates) == space.size() - 1
    assert search_composed.largest(space) not in candidates
