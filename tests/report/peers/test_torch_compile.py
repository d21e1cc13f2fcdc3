from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.report.peers.small_program import check_program

pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++, which is missing")
def test_it_computes_what_torch_computes(tmp_path: Path) -> None:
    check_program("torch-compile", tmp_path)
