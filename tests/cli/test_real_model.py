from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.errors import MissingDependencyError
from tvm_fusionx.zoo import export

MODEL = "ppocr-cls"


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.mark.slow
def test_a_trained_model_is_compiled_run_and_verified(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    try:
        model = export(MODEL, tmp_path / "model.onnx")
    except MissingDependencyError as error:
        pytest.skip(str(error))
    shapes = " ".join(f"{n}:[{','.join(map(str, s))}]" for n, s in model.shapes.items())
    library, outputs = tmp_path / "lib.tar", tmp_path / "out.npz"
    compiled = run("compile", model.path, "--input-shapes", shapes, "-o", library)
    assert compiled.code == 0, compiled.err
    ran = run("run", library, "--outputs", outputs, "--print-time", "--profile", "--repeat", 3)
    assert ran.code == 0, ran.err
    assert "Sum of" in ran.out
    with np.load(outputs) as written:
        # Its two classes are probabilities: upright, and turned by half a circle.
        assert written["output_0"].sum() == pytest.approx(1, abs=1e-5)
    verified = run("verify", model.path, "--input-shapes", shapes)
    assert verified.code == 0, verified.out
