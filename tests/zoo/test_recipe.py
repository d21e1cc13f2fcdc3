from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tvm_fusionx.errors import ModelError
from tvm_fusionx.zoo import recipe


def test_a_random_sentence_is_padded_where_its_mask_is_zero() -> None:
    inputs = recipe.random_sentence(50, 96)
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    assert ids.shape == mask.shape == (1, 128)
    assert mask.sum() == 96
    assert (ids[0, :96] > 0).all()
    assert not ids[0, 96:].any()
    assert ids.max() < 50


def test_a_network_is_drawn_calibrated_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    onnx = pytest.importorskip("onnx")
    module = pytest.importorskip("tvm_fusionx.zoo.networks.vgg")

    def tiny() -> Any:
        return torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))

    monkeypatch.setattr(module, "vgg16", tiny)
    picture = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(np.float32)
    row = recipe.network("vgg.vgg16", "a network", lambda: {"image": picture}, outputs=("map",))
    path = tmp_path / "model.onnx"
    row.write(row.sample(), path, "torchscript")
    graph = onnx.load(path).graph
    assert [value.name for value in graph.input] == ["image"]
    assert [value.name for value in graph.output] == ["map"]


def test_a_maker_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    row = recipe.network("vgg.vgg99", "none", lambda: {"image": np.zeros((1, 1, 8, 8), np.float32)})
    with pytest.raises(AttributeError, match="vgg99"):
        row.write(row.sample(), tmp_path / "model.onnx", "torchscript")


def test_a_model_of_onnx_alone_has_no_program(tmp_path: Path) -> None:
    row = recipe.packaged_ocr("a model", "model.onnx", (32, 32), lambda *_: np.zeros(1, np.float32))
    with pytest.raises(ModelError, match="a model made with torch"):
        row.write({}, tmp_path / "model.pt2", "program")
