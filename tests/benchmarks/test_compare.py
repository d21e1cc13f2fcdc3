from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "compare.py"


@pytest.fixture(scope="module")
def compare() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks its module up.
    sys.modules["compare"] = module
    spec.loader.exec_module(module)
    return module


def _times(median: float, spread: float = 0.01) -> dict[str, float]:
    return {
        "median": median,
        "p10": median * (1 - spread),
        "p90": median * (1 + spread),
        "n": 40,
    }


def _result(ours: float, *, tvm: float = 20.0, ort: float = 15.0, **facts: Any) -> dict[str, Any]:
    latency = {"fusionx": ours, "tvm": tvm, "ort": ort, "unfused": 12.0}
    return {
        "model": "net",
        "threads": 2,
        "device": "this",
        "kernels": {"fusionx": 10},
        "latency_ms": {side: _times(value) for side, value in latency.items()},
        **facts,
    }


@pytest.mark.parametrize(
    ("ours", "machine", "verdict"),
    [(10.0, 1.0, "same"), (8.0, 1.0, "better"), (12.0, 1.0, "worse"), (20.0, 2.0, "same")],
    ids=["as before", "faster", "slower", "on a slower day"],
)
def test_a_change_is_judged_in_the_time_of_the_others(
    compare: ModuleType, ours: float, machine: float, verdict: str
) -> None:
    new = _result(ours, tvm=20.0 * machine, ort=15.0 * machine)
    found = compare.compare(_result(10.0), new)
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(ours / machine / 10.0)


def test_scatter_hides_a_small_change(compare: ModuleType) -> None:
    old, new = _result(10.0), _result(9.0)
    assert compare.compare(old, new).verdict == "better"
    for side in new["latency_ms"]:
        median = new["latency_ms"][side]["median"]
        new["latency_ms"][side] = _times(median, spread=0.6)
    assert compare.compare(old, new).verdict == "same"


def test_what_the_others_move_against_each_other_hides_a_change(compare: ModuleType) -> None:
    def pair(moves: dict[str, float]) -> tuple[dict[str, Any], dict[str, Any]]:
        old, new = _result(10.0), _result(9.0)
        for result, by in ((old, 0.0), (new, 1.0)):
            for side, moved in moves.items():
                result["latency_ms"][side] = _times(15.0 * (1 + by * moved))
        return old, new

    still = pair({"ort": 0.0, "mnn": 0.0, "ncnn": 0.0})
    moving = pair({"ort": 0.1, "mnn": -0.1, "ncnn": 0.05})
    assert compare.scatter_of_others([still]) == 0
    scatter = compare.scatter_of_others([moving])
    assert 0.05 < scatter < 0.2
    assert compare.compare(*still, 0.0).verdict == "better"
    assert compare.compare(*still, scatter).verdict == "same"
    # Two runtimes that part say nothing of which of them moved.
    assert compare.scatter_of_others([pair({"ort": 0.1})]) == 0


def test_a_runtime_of_another_version_or_with_wrong_outputs_is_no_yardstick(
    compare: ModuleType,
) -> None:
    old, new = _result(10.0), _result(10.0, ort=5.0)
    assert compare.compare(old, new).verdict == "worse"
    for result, version in ((old, "1.0"), (new, "2.0")):
        result["versions"] = {"ort": version}
    assert compare.compare(old, new).ratio == pytest.approx(1)
    old, new = _result(10.0), _result(10.0, ort=5.0)
    new["rel_err"] = {"fusionx": 0.0, "tvm": 0.0, "ort": 0.3}
    assert compare.compare(old, new).ratio == pytest.approx(1)


def test_the_control_is_no_yardstick(compare: ModuleType) -> None:
    new = _result(10.0)
    new["latency_ms"]["unfused"] = _times(1.0)
    assert compare.compare(_result(10.0), new).ratio == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("facts", "said"), [({"threads": 4}, "threads 2 and 4"), ({"device": "that"}, "device")]
)
def test_other_machines_are_not_compared(
    compare: ModuleType, facts: dict[str, Any], said: str
) -> None:
    assert said in compare.compare(_result(10.0), _result(10.0, **facts))


def test_the_command_names_what_became_worse(
    compare: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, ours in (("old", 10.0), ("new", 13.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "net.json").write_text(json.dumps(_result(ours)))
    monkeypatch.setattr(sys, "argv", ["compare", str(tmp_path / "old"), str(tmp_path / "new")])
    assert compare.main() == 1
    assert "worse" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["compare", str(tmp_path / "new"), str(tmp_path / "old")])
    assert compare.main() == 0
    assert "better" in capsys.readouterr().out
