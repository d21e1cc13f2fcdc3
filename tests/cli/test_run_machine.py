from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.cli.run_cli import Ran, runner
from tests.data_models import by_onnxruntime, looping, suppressing


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(looping(), tmp_path / "double.onnx")
    return tmp_path / "double.onnx"


def test_a_model_that_the_data_decides_is_compiled_told_and_run(
    run: Callable[..., Ran], model: Path, tmp_path: Path
) -> None:
    library, inputs, outputs = (tmp_path / name for name in ("lib.tar", "in.npz", "out.npz"))
    given = {"x": np.array([1, 2, 3, 4], "float32")}
    np.savez(inputs, **given)
    ran = run("compile", model, "-o", library)
    assert ran.code == 0, ran.err
    assert "virtual machine" in ran.out
    assert "why: the data decides what If or Loop of node 'double' returns" in ran.out
    ran = run(
        "run", library, "--inputs", inputs, "--outputs", outputs, "--print-time", "--repeat", 2
    )
    assert ran.code == 0, ran.err
    assert "Median" in ran.out
    written = np.load(outputs)
    for place, wanted in enumerate(by_onnxruntime(looping(), given)):
        np.testing.assert_allclose(written[f"output_{place}"], wanted, 1e-5)
    ran = run("run", library, "--fill-mode", "ones", "--print-top", 1)
    assert ran.code == 0, ran.err
    assert "output_1:[" in ran.out
    trace = tmp_path / "trace.json"
    ran = run("run", library, "--profile", "--trace", trace)
    assert ran.code == 0, ran.err
    assert "what the machine does between kernels" in " ".join(ran.out.split())
    names = [event["name"] for event in json.loads(trace.read_text())["traceEvents"]]
    assert any("vm_mod_fused_" in name for name in names)
    ran = run("verify", model)
    assert ran.code == 0, ran.err


def test_the_graph_executor_is_refused_with_the_node(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    onnx.save(suppressing(), tmp_path / "boxes.onnx")
    ran = run("compile", tmp_path / "boxes.onnx", "-o", tmp_path / "l.tar", "--executor", "graph")
    assert ran.code == 2
    assert "of node 'nms'" in ran.problem
    assert "--executor vm" in ran.problem
