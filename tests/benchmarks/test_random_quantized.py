from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script


def test_a_stopped_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = script("random_quantized")
    rows = tmp_path / "rows.jsonl"
    asked = []

    def judge(seed: int, target: str) -> tuple[str, str]:
        asked.append(seed)
        return (bench.WRONG if seed == 1 else bench.OK), "said"

    monkeypatch.setattr(bench, "judge", judge)
    assert bench.main(["--count", "2", "--out", str(rows)]) == 1
    with rows.open("a") as file:
        file.write('{"seed": 2, "tar')  # cut by a kill
    assert bench.main(["--count", "3", "--out", str(rows)]) == 1
    assert asked == [0, 1, 2]
    # Another target has results of its own.
    assert bench.known(rows, "llvm") == {}


def test_what_is_not_right_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = script("random_quantized")
    monkeypatch.setattr(bench, "meaning", lambda model, x: np.zeros(4))
    monkeypatch.setattr(bench, "step_of_last", lambda model: 1.0)
    builds = []

    def run(model: object, x: object, target: str, on_integers: bool) -> np.ndarray:
        builds.append(on_integers)
        return np.full(4, 2.0)

    monkeypatch.setattr(bench, "run", run)
    rounded = np.zeros(4)
    monkeypatch.setattr(bench, "run_onnxruntime", lambda model, inputs: [rounded])
    assert [bench.judge(seed, "llvm")[0] for seed in (2, 3)] == [bench.WRONG] * 2
    # As ONNX Runtime rounds it is right, too.
    rounded += 2.0
    assert bench.judge(2, "llvm")[0] == bench.OK
    builds.pop()
    assert builds == [False, True]
