from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.benchmarks.scripts import script


def test_the_loader_gives_the_samples_in_order(tmp_path: Path) -> None:
    path = tmp_path / "samples.npz"
    np.savez(path, **{f"{number}/x": np.full(2, number) for number in range(12)})
    loader = script("neural_compressor_quantize").Loader(str(path))
    assert loader.batch_size == 1
    found = [int(inputs["x"][0]) for inputs, _ in loader]
    assert found == list(range(12))
    # It is iterated once for each pass of the tool.
    assert len(list(loader)) == 12
