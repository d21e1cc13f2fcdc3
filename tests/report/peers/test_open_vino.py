from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.peers.held_to_reference import check_peer
from tests.tiny_models import convolution, lookup

pytest.importorskip("openvino")


def test_it_computes_what_the_reference_computes(tmp_path: Path) -> None:
    prepared = check_peer("openvino", convolution(), tmp_path)
    assert prepared.name == "openvino"
    assert prepared.version[0].isdigit()


def test_integer_inputs_and_several_outputs(tmp_path: Path) -> None:
    check_peer("openvino", lookup(), tmp_path)


def test_its_own_fusion_is_counted(tmp_path: Path) -> None:
    count = check_peer("openvino", convolution(), tmp_path).count_kernels
    assert count is not None
    # Convolution with its activation, and the mean; layouts may be changed before and between.
    assert 2 <= count() <= 5
