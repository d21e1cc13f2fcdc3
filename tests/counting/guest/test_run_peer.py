"""The guest's script, here: its marks are numbers of files that nobody opened."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.tiny_models import perceptron, save
from tvm_fusionx.counting.guest import run_peer


def test_a_runtime_runs_and_its_outputs_are_kept(tmp_path: Path) -> None:
    model = save(perceptron(), tmp_path)
    x = np.random.default_rng(0).standard_normal((4, 16)).astype("float32")
    np.savez(tmp_path / "arrays.npz", x=x)
    spec = {"runtime": "ort", "model": str(model)}
    for name in ("arrays.npz", "results.npz", "told.json"):
        spec[name.partition(".")[0]] = str(tmp_path / name)
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    run_peer.main(str(tmp_path / "spec.json"))
    with np.load(tmp_path / "results.npz") as results:
        (output,) = (results[name] for name in results.files)
    assert output.shape == (4, 8)
    assert json.loads((tmp_path / "told.json").read_text())["version"]


def test_every_runtime_is_called_twice_between_its_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[object] = []
    monkeypatch.setattr(run_peer, "mark", done.append)

    def prepare(spec: run_peer.Spec, inputs: run_peer.Arrays) -> run_peer.Prepared:
        return (lambda: done.append("run") or [1.0]), (lambda found: [np.array(found)]), "7"

    monkeypatch.setitem(run_peer.PREPARE, "ncnn", prepare)
    np.savez(tmp_path / "arrays.npz", x=np.ones(1))
    spec = {
        "runtime": "ncnn",
        "arrays": str(tmp_path / "arrays.npz"),
        "results": str(tmp_path / "results.npz"),
        "told": str(tmp_path / "told.json"),
    }
    (tmp_path / "spec.json").write_text(json.dumps(spec))
    run_peer.main(str(tmp_path / "spec.json"))
    assert done == [run_peer.WARM, "run", run_peer.START, "run", run_peer.STOP]


def test_the_marks_are_the_plug_ins() -> None:
    source = Path(run_peer.__file__).parents[1] / "plugin" / "count.c"
    text = source.read_text().lower()
    for number in (run_peer.WARM, run_peer.START, run_peer.STOP):
        assert f"{number:#x}u" in text
