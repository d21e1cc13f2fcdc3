from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx.search.space_file import parse_space

pytest.importorskip("torch", reason="torch is not installed")
search_text = script("search_text")


def test_the_baseline_is_the_largest() -> None:
    choices = search_text.largest(parse_space(search_text.SPACE))["choices"]
    assert (choices["layers"], choices["hidden"]) == (4, 128)
    assert choices["layer3.feed_forward"] == 256


@pytest.mark.slow
def test_a_small_run_is_told_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {**search_text.QUICK, "vocabulary": 30, "layers": [1], "feed_forward": [4, 64]}
    monkeypatch.setattr(search_text, "QUICK", small)
    # On a machine with other work a time may be anything: here all networks are fast enough.
    monkeypatch.setattr(search_text, "FASTER", 1e-3)
    generator = np.random.default_rng(0)
    arrays = {}
    for part in ("train", "test"):
        arrays[f"{part}_ids"] = generator.integers(0, 30, (4000, 8))
        # Of one kind, so that the little training there is gets some of them right.
        arrays[f"{part}_labels"] = np.full(4000, 3)
    np.savez(tmp_path / "data.npz", **arrays)
    words = [str(tmp_path / "out"), "--data", str(tmp_path / "data.npz"), "--quick"]
    words += ["--strategies", "random", "--seeds", "1", "--trials", "1", "--device", "local"]
    search_text.main([*words, "--epochs", "1"])
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    assert found["space"] == 2
    (search,) = found["searches"]
    assert search["curve"][-1] == search["best"]["accuracy"]
    assert search["error"] >= 0
