from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from tests.counting.counted_model import CORE, counted_library, counted_onnx
from tests.tiny_models import perceptron, save
from tvm_fusionx.build.library import save_library
from tvm_fusionx.build.programs import build_programs
from tvm_fusionx.counting.library_run import run_library
from tvm_fusionx.errors import InputError, LibraryFileError, TargetError


def test_a_library_computes_what_its_model_does() -> None:
    library = counted_library()
    x = np.random.default_rng(1).standard_normal((4, 16)).astype("float32")
    ran = run_library(library, CORE, inputs={"x": x})
    session = onnxruntime.InferenceSession(counted_onnx())
    (output,) = ran.outputs
    np.testing.assert_allclose(output, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)
    assert "cortex-a76" in ran.target
    assert set(ran.templates.values()) - {""}
    symbols = {function.name for function in ran.functions}
    assert any(name.startswith(kernel) for kernel in ran.templates for name in symbols)


@pytest.mark.parametrize(
    ("name", "shape", "dtype", "problem"),
    [
        ("q", (4, 16), "float32", "input 'q'"),
        ("x", (16, 4), "float32", r"shape \(16, 4\)"),
        ("x", (4, 16), "int32", "dtype int32"),
    ],
)
def test_inputs_that_the_model_does_not_take_are_refused(
    name: str, shape: tuple[int, ...], dtype: str, problem: str
) -> None:
    with pytest.raises(InputError, match=problem):
        run_library(counted_library(), CORE, inputs={name: np.ones(shape, dtype)})


def test_a_library_for_another_machine_is_refused(tmp_path: Path) -> None:
    model = save(perceptron("n"), tmp_path)
    made = build_programs(model, "llvm", [{"x": (1, 16)}])
    host = tmp_path / "host.tar"
    save_library(made.programs, host)
    with pytest.raises(TargetError, match="AArch64"):
        run_library(host, CORE)
    with pytest.raises(LibraryFileError):
        run_library(model, CORE)


@pytest.mark.slow
def test_a_library_of_several_shapes_is_refused(tmp_path: Path) -> None:
    model = save(perceptron("n"), tmp_path)
    several = tmp_path / "several.tar"
    save_library(build_programs(model, "llvm", [{"x": (1, 16)}, {"x": (2, 16)}]).programs, several)
    with pytest.raises(LibraryFileError, match="several"):
        run_library(several, CORE)
