from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script
from tests.search.small_spaces import CNNS, cnns, transformers
from tvm_fusionx.search.latency import Check
from tvm_fusionx.search.space import candidate_key

pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.search.proxy import flops_of

search_latency = script("search_latency")


@dataclass
class _Estimator:
    """Knows every latency, and predicts it with an error that grows with the launch."""

    clock: Any
    database: Any
    launch_us: float = 0.0
    checked: int = 0

    def calibrate(self, candidates: Any) -> float:
        assert len(candidates) == 8
        self.launch_us = 0.04
        return self.launch_us

    def check(self, candidate: Any) -> Check:
        type(self).checked += 1
        measured = float(flops_of(candidate))
        return Check(measured * (1 + self.launch_us), measured, 3)


@contextlib.contextmanager
def _clock(name: str) -> Any:
    class Clock:
        setting = name

    yield Clock


def test_checks_are_kept_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_latency, "LatencyEstimator", _Estimator)
    monkeypatch.setattr(search_latency, "clock_of", _clock)
    space = tmp_path / "space.json"
    space.write_text(json.dumps(CNNS))
    words = [str(tmp_path / "out"), "--space", str(space), "--count"]
    assert search_latency.main([*words, "6"]) == 0
    report = json.loads((tmp_path / "out" / "results.json").read_text())
    assert report["measured"] == 6
    assert report["median_error"] == pytest.approx(0.04)
    assert report["largest_error"] == pytest.approx(0.04)
    assert report["rank_correlation"] == report["rank_correlation_of_operations"] == 1
    checked = _Estimator.checked
    assert search_latency.main([*words, "9"]) == 0
    assert _Estimator.checked == checked + 3
    again = json.loads((tmp_path / "out" / "results.json").read_text())
    assert again["rows"][:6] == report["rows"]
    # A prediction that is too far off is told by the exit code.
    monkeypatch.setattr(_Estimator, "check", lambda self, each: Check(1.1, 1.0, 1))
    assert search_latency.main([str(tmp_path / "far"), *words[1:], "3"]) == 1


def test_architectures_are_different_and_of_all_spaces() -> None:
    made = list(search_latency.architectures([cnns(), transformers()], 60, 0))
    assert len({candidate_key(each) for each in made}) == 60
    families = [each["family"] for each in made]
    assert families.count("cnn") == families.count("transformer") == 30
    small = transformers().without("layers", [2, 3])
    assert len(list(search_latency.architectures([small], 60, 0))) == small.size() == 8


def test_nothing_that_runs_is_told() -> None:
    with pytest.raises(SystemExit, match="none of 1"):
        search_latency.summary([{"predicted_us": None, "measured_us": None}])


def test_ranks_and_their_correlation() -> None:
    assert search_latency.ranks([3.0, 1.0, 3.0, 2.0]) == [2.5, 0.0, 2.5, 1.0]
    assert search_latency.rank_correlation([1, 2, 3], [10, 100, 1000]) == pytest.approx(1)
    assert search_latency.rank_correlation([1, 2, 3], [9, 8, 7]) == pytest.approx(-1)
    assert search_latency.rank_correlation([1, 1, 1], [1, 2, 3]) == 0
