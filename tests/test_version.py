from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import tvm_fusionx as fx
from tvm_fusionx.version import VERSION

ROOT = Path(__file__).resolve().parent.parent


def test_package_and_distribution_tell_one_version() -> None:
    told = subprocess.run(
        [sys.executable, "setup.py", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split()[-1] == fx.__version__ == VERSION
