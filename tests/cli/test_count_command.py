from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.cli.run_cli import Ran, runner
from tests.counting.counted_model import counted_library, counted_onnx


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_a_library_is_counted_and_disassembled(run: Callable[..., Ran], tmp_path: Path) -> None:
    library = counted_library()
    inputs, written = tmp_path / "in.npz", tmp_path / "counts.json"
    np.savez(inputs, x=np.ones((4, 16), np.float32))
    ran = run("count", library, "--inputs", inputs, "--json", written, "--asm", 1, "--no-caches")
    assert ran.code == 0, ran.err
    assert "one inference for cortex-a76" in ran.out
    assert "None of it is a time on a phone" in " ".join(ran.out.split())
    assert "loop 1, " in ran.out
    (count,) = json.loads(written.read_text())["counts"]
    assert count["side"] == "fusionx"
    assert count["total"]["multiply_adds"] > 0


def test_what_is_read_is_not_written_over(run: Callable[..., Ran], tmp_path: Path) -> None:
    model, inputs = tmp_path / "model.onnx", tmp_path / "in.npz"
    counted_library()
    model.write_bytes(counted_onnx().read_bytes())
    np.savez(inputs, x=np.ones((4, 16), np.float32))
    for read in (model, inputs):
        before = read.read_bytes()
        ran = run("count", model, "--inputs", inputs, "--json", read)
        assert ran.code == 2
        assert "the input itself" in ran.problem
        assert read.read_bytes() == before


@pytest.mark.slow
def test_a_model_is_compiled_for_the_core_first(run: Callable[..., Ran]) -> None:
    counted_library()
    ran = run("count", counted_onnx(), "--cpu", "neoverse-n1", "--kernels", 0)
    assert ran.code == 0, ran.err
    assert "one inference for neoverse-n1" in ran.out


def test_an_unknown_core_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("count", tmp_path / "m.onnx", "--cpu", "znver4")
    assert ran.code == 2
    assert "cortex-a76" in ran.problem


@pytest.mark.slow
def test_seven_products_execute_fewer_multiply_adds(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    counted_library()
    model, found = _dense(tmp_path), []
    for options in ((), ("--strassen",)):
        written = tmp_path / "counts.json"
        ran = run("count", model, "--json", written, "--no-caches", *options)
        assert ran.code == 0, ran.err
        (count,) = json.loads(written.read_text())["counts"]
        found.append(count["total"])
    plain, seven = found
    assert seven["multiply_adds"] == plain["multiply_adds"] * 7 // 8
    assert seven["instructions"] < plain["instructions"]


def _dense(folder: Path) -> Path:
    """Write a product of 64 x 384 by 384 x 768."""
    weights = np.random.default_rng(2).standard_normal((384, 768)).astype("float32")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [64, 384])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [64, 768])],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, folder / "dense.onnx")
    return folder / "dense.onnx"
