from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.report.peers.held_to_reference import check_peer
from tests.tiny_models import convolution
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.report.peers import ncnn_net

pytest.importorskip("ncnn")


@pytest.mark.skipif(
    importlib.util.find_spec("pnnx") is None, reason="pnnx, which converts for ncnn, is missing"
)
def test_it_computes_what_the_reference_computes(tmp_path: Path) -> None:
    prepared = check_peer("ncnn", convolution(), tmp_path)
    assert prepared.name == "ncnn"
    assert prepared.version[0].isdigit()
    assert prepared.count_kernels is not None
    # Convolution with its activation, and the mean; a layout may be changed.
    assert 2 <= prepared.count_kernels() <= 4


def test_layers_that_move_nothing_are_not_counted(tmp_path: Path) -> None:
    parameters = tmp_path / "net.param"
    parameters.write_text("7767517\n3 3\nInput in0 0 1 x\nReshape r 1 1 x y\nReLU a 1 1 y z\n")
    assert ncnn_net._count_layers(parameters) == 1


def test_a_layer_that_pnnx_left_behind_is_named(tmp_path: Path) -> None:
    parameters = tmp_path / "net.param"
    parameters.write_text("7767517\n3 3\nInput in0 0 1 x\naten::fly f 1 1 x y\nRelu r 1 1 y z\n")
    assert ncnn_net._layers_left_by_pnnx(parameters) == ["aten::fly"]


def test_without_pnnx_the_message_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps pnnx"):
        ncnn_net._pnnx_program()


def test_a_batch_of_one_is_dropped_and_integers_narrowed() -> None:
    assert ncnn_net.unbatched(np.zeros((1, 3, 8), "float32")).shape == (3, 8)
    assert ncnn_net.unbatched(np.zeros((2, 3), "int64")).dtype == np.int32
