from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks.scripts import FOLDER

PICTURES = Path("/usr/share/datasets/fashion-mnist")

# In a process of its own: torch and TVM bring libraries that may not like each other.
SMALL = """
import numpy as np, sys
import fashion_networks as f
x, y = f.pictures("t10k", 64)
assert x.shape == (64, 1, 28, 28) and y.shape == (64,) and abs(x.mean()) < 0.2
assert set(f.NETWORKS) == {"resnet", "mobilenet"}
f.main([sys.argv[1], "resnet", "--epochs", "1", "--images", "640"])
"""


@pytest.mark.slow
def test_a_network_learns_and_is_written(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    if not PICTURES.is_dir():
        pytest.skip("the Debian package dataset-fashion-mnist is not installed")
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (FOLDER, FOLDER.parent)))},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "resnet epoch 1: loss" in done.stdout
    assert (tmp_path / "fashion-resnet.onnx").stat().st_size > 100_000
