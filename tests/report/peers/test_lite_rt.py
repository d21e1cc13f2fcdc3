from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.peers.small_program import check_program
from tvm_fusionx.report.peers import lite_rt


def test_names_are_ordered_by_their_number() -> None:
    assert lite_rt._in_order(["args_10", "args_2", "args_0"]) == ["args_0", "args_2", "args_10"]


@pytest.mark.slow
def test_it_computes_what_torch_computes(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("litert_torch")
    check_program("litert", tmp_path)
