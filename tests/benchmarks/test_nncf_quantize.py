from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.benchmarks.scripts import script


def test_samples_come_back_in_order(tmp_path: Path) -> None:
    arrays = {f"{number}/x": np.full(2, number) for number in (10, 9, 0)}
    np.savez(tmp_path / "samples.npz", **arrays, **{"9/mask": np.ones(1)})
    samples = script("nncf_quantize").samples_of(str(tmp_path / "samples.npz"))
    assert [int(sample["x"][0]) for sample in samples] == [0, 9, 10]
    assert set(samples[1]) == {"x", "mask"}
