from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from tests.search.small_spaces import TRANSFORMERS
from tvm_fusionx.search.space_file import load_space, parse_space

torch = pytest.importorskip("torch", reason="torch is not installed")
search_shared = script("search_shared")


def _documents(folder: Path, count: int = 200) -> Path:
    """Write documents of which the first word tells the class."""
    generator = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for part in ("train", "test"):
        ids = generator.integers(2, 20, (count, 8))
        arrays |= {f"{part}_ids": ids, f"{part}_labels": ids[:, 0] % 3}
    np.savez(folder / "data.npz", **arrays)
    return folder / "data.npz"


def test_the_space_of_the_run_is_the_experiment_s() -> None:
    space = load_space(search_shared.SPACE)
    assert search_shared.largest(space)["choices"]["hidden"] == 96
    assert space.size() == 4662


def test_shared_weights_are_trained_once(tmp_path: Path) -> None:
    space = parse_space(TRANSFORMERS)
    documents = search_shared.Documents(_documents(tmp_path), 8)
    assert len(documents.kept) == 20
    assert not set(documents.kept.tolist()) & set(documents.used.tolist())
    first = search_shared.shared_of(space, tmp_path, documents, 3).arrays()
    note = (tmp_path / search_shared.TRAINED).read_text()
    again = search_shared.shared_of(space, tmp_path, documents, 3).arrays()
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert (tmp_path / search_shared.TRAINED).read_text() == note
    other = search_shared.shared_of(space, tmp_path, documents, 4).arrays()
    assert any(not np.array_equal(first[name], other[name]) for name in first)


def test_the_baseline_and_the_fastest_of_each_arm_are_trained_first() -> None:
    def row(arm: str, network: str, latency_us: float) -> dict[str, Any]:
        return {"arm": arm, "network": network, "latency_us": latency_us}

    searches = [row("a", "slow", 9.0), row("b", "middle", 5.0), row("b", "last", 7.0)]
    searches += [row("a", "fast", 4.0), row("a", "base", 8.0)]
    found = search_shared.in_order(searches, "base")
    assert found == ["base", "fast", "middle", "last", "slow"]


def test_operations_are_compared_with_latency_at_equal_accuracy() -> None:
    # Of two networks of as many operations one is slower; the most accurate one is needed at last.
    judged = [(0.7, 10.0, 100.0), (0.7, 10.0, 140.0), (0.8, 20.0, 200.0), (0.8, 30.0, 160.0)]
    found = search_shared.at_equal_accuracy(judged)
    assert found["over_the_fastest"] == [
        {"accuracy": 0.7, "mean": pytest.approx(1.2), "slowest": 1.4},
        {"accuracy": 0.8, "mean": 1.25, "slowest": 1.25},
    ]
    assert 0 < found["rank_correlation"] < 1
