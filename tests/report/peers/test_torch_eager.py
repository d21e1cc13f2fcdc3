from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.peers.small_program import check_program

pytest.importorskip("torch")


def test_views_are_not_counted_and_each_operator_is() -> None:
    torch = pytest.importorskip("torch")
    from tvm_fusionx.report.peers.torch_eager import count_operators

    value = torch.ones(4, 6)

    def run() -> None:
        with torch.inference_mode():
            torch.relu(value.reshape(2, 12).t() + 1)

    assert count_operators(run) == 2


@pytest.mark.slow
def test_it_computes_what_torch_computes(tmp_path: Path) -> None:
    check_program("torch", tmp_path)
