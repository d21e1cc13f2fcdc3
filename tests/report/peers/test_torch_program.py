from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.tiny_models import perceptron, save
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.report.peers import torch_program

torch = pytest.importorskip("torch")
HAS_TRITON = importlib.util.find_spec("triton") is not None


@pytest.fixture
def inputs() -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).standard_normal((2, 3)).astype("float32")}


@pytest.fixture
def model(tmp_path: Path, inputs: dict[str, np.ndarray]) -> Path:
    """Return the path of a model of which the torch program alone exists."""
    if HAS_TRITON:
        pytest.skip("triton is installed, whose LLVM ends a process that has loaded TVM's")
    program = torch.export.export(torch.nn.ReLU(), torch_program.tensors(inputs))
    torch.export.save(program, str(tmp_path / "relu.pt2"))
    return tmp_path / "relu.onnx"


def test_the_program_beside_the_model_is_the_module(
    model: Path, inputs: dict[str, np.ndarray], tmp_path: Path
) -> None:
    module = torch_program.load_module(model, inputs)
    (found,) = torch_program.arrays(module(*torch_program.tensors(inputs)))
    assert np.array_equal(found, np.maximum(inputs["x"], 0))
    assert torch_program.program_file(model, inputs, tmp_path / "other") == tmp_path / "relu.pt2"


def test_a_model_of_onnx_alone_needs_the_converter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = save(perceptron(), tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingDependencyError, match="pip install --no-deps onnx2torch"):
        torch_program.load_module(path, {})


@pytest.mark.skipif(
    HAS_TRITON or importlib.util.find_spec("onnx2torch") is None,
    reason="onnx2torch, which converts for PyTorch, is missing, or triton is there",
)
def test_a_model_of_onnx_alone_is_converted(tmp_path: Path) -> None:
    from tvm_fusionx.report.verify.reference import run_onnxruntime

    inputs = {"x": np.random.default_rng(1).standard_normal((4, 16)).astype("float32")}
    path = save(perceptron(), tmp_path)
    module = torch_program.load_module(path, inputs)
    (found,) = torch_program.arrays(module(*torch_program.tensors(inputs)))
    (wanted,) = run_onnxruntime(str(path), inputs)
    assert np.abs(found - wanted).max() <= 1e-6 * np.abs(wanted).max()


def test_triton_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "triton" or None)
    with pytest.raises(RuntimeError, match="uninstall triton"):
        torch_program.load_module(tmp_path / "model.onnx", {})
    with pytest.raises(RuntimeError, match="uninstall triton"):
        torch_program.program_file(tmp_path / "model.onnx", {}, tmp_path)


def test_the_stand_in_for_torchvision_goes_again() -> None:
    before = sys.modules.get("torchvision")
    with torch_program._torchvision_stand_in():
        from torchvision.ops import nms
    assert callable(nms)
    assert sys.modules.get("torchvision") is before


def test_what_a_converter_said_is_kept(tmp_path: Path) -> None:
    made = tmp_path / "made"
    write = "import sys; open(sys.argv[2], 'w').write('done')"
    torch_program.convert_apart("a converter", write, tmp_path, made)
    assert made.read_text() == "done"
    fail = "import sys; sys.stderr.write('ValueError: no such operator\\nSee also: the manual\\n')"
    with pytest.raises(RuntimeError, match="a converter failed: ValueError: no such operator"):
        torch_program.convert_apart("a converter", fail, tmp_path, tmp_path / "nothing")


def test_a_long_message_is_shortened() -> None:
    with (
        pytest.raises(RuntimeError, match=r"^a step failed: KeyError: 'first\\nsecond'$"),
        torch_program.told_in_one_line("a step"),
    ):
        raise KeyError("first\nsecond")
    with (
        pytest.raises(RuntimeError, match=r"^a step failed: ValueError: first$"),
        torch_program.told_in_one_line("a step"),
    ):
        raise ValueError("first\nsecond")
