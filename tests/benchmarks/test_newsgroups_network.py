from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.benchmarks.scripts import script


def test_a_trained_network_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    network = script("newsgroups_network")
    generator = np.random.default_rng(0)
    arrays = {
        f"{part}_ids": generator.integers(2, 4000, (40, 8)).astype("int64")
        for part in ("train", "test")
    }
    labels = {f"{part}_labels": np.arange(40) % 20 for part in ("train", "test")}
    np.savez(tmp_path / "data.npz", **arrays, **labels)
    paths = str(tmp_path / "data.npz"), str(tmp_path / "n.onnx")
    network.main([*paths, "--quick", "--epochs", "1"])
    session = onnxruntime.InferenceSession(paths[1])
    ids = np.tile(arrays["test_ids"], (2, 1))[: network.BATCH]
    logits = session.run(None, {"x": ids})[0]
    assert logits.shape == (network.BATCH, 20)
    right = (logits[:40].argmax(1) == labels["test_labels"]).mean()
    assert f"accuracy {right:.4f}" in capsys.readouterr().out
