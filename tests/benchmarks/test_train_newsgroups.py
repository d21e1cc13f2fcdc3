from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from tests.search.small_spaces import TRANSFORMERS
from tvm_fusionx.search.space_file import parse_space

torch = pytest.importorskip("torch", reason="torch is not installed")
training = script("train_newsgroups")

SPACE = parse_space({**TRANSFORMERS, "layers": [1], "hidden": [16]})


def test_a_candidate_learns_which_words_a_class_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 3, 400)
    ids = 2 + 6 * labels[:, None] + generator.integers(0, 6, (400, 8))
    data = {"train_ids": ids, "train_labels": labels, "test_ids": ids, "test_labels": labels}
    np.savez(tmp_path / "data.npz", **data)
    monkeypatch.setenv("NEWSGROUPS", str(tmp_path / "data.npz"))
    monkeypatch.setenv("EPOCHS", "20")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    trial = {"share": 0.5, "seed": 0, "folder": str(tmp_path / "trial")}
    found = training.train(next(iter(SPACE.every())), trial)
    torch.set_num_threads(before)
    assert found["accuracy"] > 0.9
    assert found["test_accuracy"] > 0.9
    assert found["steps"] == int(10 * 360 / training.BATCH)
    assert (tmp_path / "trial" / "weights.npz").is_file()
