"""MNN and LiteRT quantize the float model themselves, and compute nearly what it does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.benchmarks.scripts import script

# The smallest of the zoo that both convert.
NAME = "mobilenet-v1"


def _compare(tool: str, out: Path) -> None:
    """Compare a tool's 8 bits with ONNX Runtime's float model, which they must not be equal to."""
    made, models = script("int8_own_tools"), script("int8_models")
    path = models.export(out, NAME)
    inputs = models.inputs_of(out, NAME)
    side = made.OWN_TOOLS[tool](out, NAME, inputs, 1)
    found = side.outputs(side.run())[0]
    expected = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    exact = expected.run(None, inputs)[0]
    assert found.shape == exact.shape
    difference = np.abs(found - exact).max() / np.abs(exact).max()
    assert 1e-6 < difference < 0.5
    assert list((out / made.KEPT).iterdir())


@pytest.mark.slow
def test_mnn_quantizes_weights(tmp_path: Path) -> None:
    pytest.importorskip("MNN")
    _compare("mnn", tmp_path)


@pytest.mark.slow
def test_litert_quantizes_the_program(tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    pytest.importorskip("ai_edge_quantizer")
    pytest.importorskip("litert_torch")
    _compare("litert", tmp_path)


def test_transformers_are_quantized_as_they_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = script("int8_own_tools")
    monkeypatch.setattr(made, "export", lambda out, name: out / f"{name}.float32.onnx")
    monkeypatch.setattr(made, "is_transformer", lambda model: model.name.startswith("minilm"))
    monkeypatch.setattr(made.zoo, "export", lambda name, path, form: path.write_bytes(b""))
    scripts: list[str] = []

    def stop(package: str, text: str, source: Path, to: Path) -> None:
        scripts.append(text)
        to.write_bytes(b"")

    monkeypatch.setattr(made, "convert_apart", stop)
    monkeypatch.setattr(made.metadata, "version", lambda package: "1")
    monkeypatch.setattr(made.lite_rt, "loaded", lambda content, inputs, threads: content)

    class Converted:
        def __enter__(self) -> Path:
            return tmp_path

        def __exit__(self, *error: object) -> None:
            pass

    (tmp_path / made.lite_rt.CONVERTED).write_bytes(b"program")
    monkeypatch.setattr(made.lite_rt, "converted", lambda model, inputs, kept: Converted())
    for name in ("minilm", "resnet18"):
        assert made.litert(tmp_path, name, {}, 1) == b""
    assert [made.DYNAMIC in text for text in scripts] == [True, False]
    assert [made.STATIC in text for text in scripts] == [False, True]
