from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.peers.small_program import check_program

pytest.importorskip("torch")


@pytest.mark.slow
def test_it_computes_what_torch_computes(tmp_path: Path) -> None:
    check_program("torch", tmp_path)
