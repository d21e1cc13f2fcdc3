"""What README.md promises: its example runs, its links lead somewhere, its table can be filled."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.quantized_models import Layers

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
LONGEST_EXAMPLE = 12


def the_examples() -> tuple[str, str]:
    build, quantize = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    return build, quantize


def the_example() -> str:
    return the_examples()[0]


def table_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "readme_table", ROOT / "benchmarks" / "readme_table.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def a_result(model: str, ours: float, tvm: float) -> dict[str, Any]:
    def latency(median: float) -> dict[str, Any]:
        return {"median": median, "p10": median * 0.9, "p90": median * 1.2, "n": 50}

    return {
        "model": model,
        "device": "a processor",
        "threads": 2,
        "versions": {"tvm": "0.19.0"},
        "ops": 10,
        "kernels": {"fusionx": 3, "tvm": 5, "unfused": 9},
        "max_rel_err": 1.26e-6,
        "latency_ms": {"fusionx": latency(ours), "tvm": latency(tvm)},
    }


def test_the_examples_are_short() -> None:
    for example in the_examples():
        assert len([line for line in example.splitlines() if line]) <= LONGEST_EXAMPLE + 1


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
    monkeypatch.chdir(tmp_path)
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Relu", ["x"], ["positive"], name="/relu"),
            onnx.helper.make_node("Add", ["positive", "x"], ["y"], name="/add"),
        ],
        "readme",
        [value("x", onnx.TensorProto.FLOAT, ["batch", 3, "height", "width"])],
        [value("y", onnx.TensorProto.FLOAT, ["batch", 3, "height", "width"])],
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), "model.onnx")
    scope: dict[str, Any] = {}
    exec(compile(the_example(), "README.md", "exec"), scope)
    scope["model"].run()
    assert scope["model"].get_output(0).shape == (1, 3, 320, 320)
    assert "kernels" in capsys.readouterr().out


def test_the_example_of_quantising_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx = pytest.importorskip("onnx", reason="onnx is not installed: pip install onnx")
    pytest.importorskip("onnxruntime", reason="our own build would compile for a minute")
    monkeypatch.chdir(tmp_path)
    layers = Layers(1, 3, 32, 32)
    flat = layers.add("Flatten", layers.add("GlobalAveragePool", layers.conv("x", 8, 3, 3)))
    onnx.save(layers.model(layers.add("Gemm", flat, layers.weights(8, 10))), "model.onnx")
    inputs = np.random.default_rng(0).normal(size=(4, 1, 3, 32, 32)).astype("float32")
    np.savez("inputs.npz", x=inputs, labels=np.arange(4))
    exec(compile(the_examples()[1], "README.md", "exec"), {})
    assert "top1: float" in capsys.readouterr().out
    made = {node.op_type for node in onnx.load("model.int8.onnx").graph.node}
    assert "QuantizeLinear" in made


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_links_lead_to_files(name: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    targets = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in targets if not (ROOT / link).exists()] == []


def test_the_table_has_a_row_a_model_and_says_how_it_was_measured() -> None:
    script = table_script()
    results = (a_result("small", 1.0, 2.5), a_result("large", 10.0, 15.0))
    peaks = {"gflops_per_second": 199.6, "gbytes_per_second": 25.2}
    text = script.table(script.MeasuredRun({"machine": peaks}, results))
    lines = text.splitlines()
    assert lines[0].startswith("| model | operators | kernels | TVM's kernels | ours | TVM |")
    assert lines[2] == "| small | 10 | 3 | 5 | 1.0 | 2.5 | 2.50 | 1.3e-06 |"
    assert lines[-1].startswith("Median milliseconds of at least 50 interleaved runs a side on")
    assert "(measured peak 200 GFLOP/s, copying 25 GB/s)" in lines[-1]
    assert "TVM 0.19.0" in lines[-1]


def test_the_table_goes_between_the_markers() -> None:
    script = table_script()
    once = script.fill(README, "table 1")
    assert "table 1" in once
    assert script.fill(once, "table 2").count("table") == once.count("table")
    with pytest.raises(ValueError, match="markers"):
        script.fill("no markers", "table")
