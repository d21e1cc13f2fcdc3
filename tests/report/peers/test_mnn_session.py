from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.peers.held_to_reference import check_peer
from tests.tiny_models import convolution, lookup
from tvm_fusionx.report.peers import mnn_session

pytest.importorskip("MNN")


def test_it_computes_what_the_reference_computes(tmp_path: Path) -> None:
    prepared = check_peer("mnn", convolution(), tmp_path)
    assert prepared.name == "mnn"
    assert prepared.version[0].isdigit()


def test_integer_inputs_and_several_outputs(tmp_path: Path) -> None:
    check_peer("mnn", lookup(), tmp_path)


def test_a_file_that_cannot_be_converted_has_a_message(tmp_path: Path) -> None:
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"not a model")
    with pytest.raises(RuntimeError, match="mnnconvert failed"):
        mnn_session._convert(broken, tmp_path / "broken.mnn")
