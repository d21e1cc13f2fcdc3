from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm

from tests.cli.run_cli import Ran, runner
from tests.sampled import few_fast, few_fast_rows
from tests.tiny_models import FEATURES, ROWS, perceptron, save
from tvm_fusionx.devices import opencl_plugin
from tvm_fusionx.errors import MissingDependencyError


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.mark.parametrize("reference", few_fast(["ort", "tvm"], 1))
def test_a_right_model_is_0(run: Callable[..., Ran], tmp_path: Path, reference: str) -> None:
    inputs, written = tmp_path / "in.npz", tmp_path / "report.json"
    np.savez(inputs, x=np.ones((ROWS, FEATURES), "float32"))
    model = save(perceptron(), tmp_path)
    ran = run(
        "verify", model, "--inputs", inputs, "--reference", reference, "--json", written, "--all"
    )
    assert ran.code == 0, ran.err
    assert "WRONG" not in ran.out
    assert "outputs within 1e-05 of" in ran.out.replace("\n", " ")
    assert json.loads(written.read_text())["ok"] is True


def test_without_a_device_a_gpu_is_3_before_anything_is_built(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise MissingDependencyError("OpenCL", expected="a device", found="none", next_step="-")

    monkeypatch.setattr(opencl_plugin, "load_opencl", missing)
    ran = run("verify", save(perceptron(), tmp_path), "--target=opencl")
    assert ran.code == 3
    assert ran.problem == "fusionx: OpenCL: expected a device; found none. -"


@pytest.mark.parametrize(
    ("precision", "step"), few_fast_rows([("float16", "0.00098"), ("bfloat16", "0.0078")], 1)
)
def test_a_model_stored_in_16_bits_is_held_to_a_step(
    run: Callable[..., Ran], tmp_path: Path, precision: str, step: str
) -> None:
    model, written = save(perceptron(), tmp_path), tmp_path / "report.json"
    ran = run("verify", model, "--precision", precision, "--json", written, "--all")
    assert ran.code == 0, ran.err
    assert f"tensors in {precision} are held to one step, {step}" in ran.out.replace("\n", " ")
    # As exact as float32 it is not: the option had an effect.
    found = json.loads(written.read_text())
    assert max(each["max_rel"] for each in found["end_to_end"]) > 1e-6


def test_a_precision_that_there_is_not_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("verify", save(perceptron(), tmp_path), "--precision", "float8")
    assert ran.code == 2


def test_a_wrong_kernel_is_1_and_bisected(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_record = sys.modules["tvm_fusionx.blocks.by_record"]
    right = by_record.schedule  # type: ignore[attr-defined]

    def spoil(call: Any) -> Any:
        if call.op.same_as(tvm.ir.Op.get("tir.exp")):
            return tvm.tir.exp(call.args[0] * tvm.tir.const(1.01, call.dtype))
        return None

    def wrong(func: Any, *args: Any, **kwargs: Any) -> Any:
        body = tvm.tir.stmt_functor.ir_transform(func.body, None, spoil, ["tir.Call"])
        return right(func.with_body(body), *args, **kwargs)

    monkeypatch.setattr(by_record, "schedule", wrong)
    folder = tmp_path / "reproduction"
    ran = run("verify", save(perceptron(), tmp_path), "--bisect", "-o", folder)
    assert ran.code == 1
    assert "WRONG" in ran.out
    assert "is the first wrong one" in ran.out
    assert str(folder / "reproduce.py") in ran.out.replace("\n", "")
    assert (folder / "reproduce.py").is_file()


def test_a_wrong_input_is_2(run: Callable[..., Ran], tmp_path: Path) -> None:
    inputs = tmp_path / "in.npz"
    np.savez(inputs, z=np.ones(3))
    ran = run("verify", save(perceptron(), tmp_path), "--inputs", inputs)
    assert ran.code == 2
    assert "'z'" in ran.problem
