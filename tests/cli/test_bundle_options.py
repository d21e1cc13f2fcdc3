from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.bundle.small_bundles import need
from tests.cli.run_cli import Ran, runner
from tests.tiny_models import lookup, perceptron, save
from tvm_fusionx.bundle import export
from tvm_fusionx.cli import bundle_options


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_the_options_are_those_of_the_room() -> None:
    assert bundle_options.PLACES == export.PLACES
    assert bundle_options.MOST_TASKS == export.MOST_TASKS


def test_a_model_becomes_a_bundle(run: Callable[..., Ran], tmp_path: Path) -> None:
    need("gcc")
    model = save(lookup(), tmp_path)
    ran = run("compile", model, "--bundle", tmp_path / "out", "--bundle-weights", "beside")
    assert ran.code == 0, ran.err
    assert ran.out.startswith(f"{tmp_path / 'out'}: ")
    held = {path.name for path in (tmp_path / "out").iterdir()}
    assert held == {*export.bundle_files("out")}
    assert "const int64_t *ids;" in (tmp_path / "out" / "out.h").read_text()


def test_a_model_for_opencl_becomes_one_too(run: Callable[..., Ran], tmp_path: Path) -> None:
    need("gcc")
    ran = run(
        "compile", save(lookup(), tmp_path), "--target", "opencl", "--bundle", tmp_path / "out"
    )
    assert ran.code == 0, ran.err
    assert "OUT_DEVICE_BYTES" in (tmp_path / "out" / "out.h").read_text()


def test_a_limit_is_held_before_anything_is_written(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model = save(perceptron(), tmp_path)
    ran = run("compile", model, "--bundle", tmp_path / "out", "--memory-limit", "1KiB")
    assert ran.code == 2
    assert "memory of the model: expected at most 1 KiB (1024 bytes)" in ran.problem
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--bundle", "2 nets"], "name of the bundle"),
        (["--bundle", "net", "--bundle-name", "a/b"], "name of the bundle"),
        (["--memory-limit", "some"], "memory limit: expected a size"),
        (["--bundle", "net", "--executor", "vm"], "TVM's virtual machine"),
        (["--bundle", "net", "--executor", "vm"], "Leave the limit (--memory-limit, memory_limit="),
        (["--bundle", "net", "--cross-compiler", "no-such-gcc"], "expected no-such-gcc"),
    ],
)
def test_what_cannot_be_is_said(
    run: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    problem: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("compile", save(perceptron(), tmp_path), *options)
    assert ran.code in (2, 3)
    assert problem in ran.problem
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]


def test_several_programs_are_no_bundle(run: Callable[..., Ran], tmp_path: Path) -> None:
    model = save(perceptron("batch"), tmp_path)
    ran = run("compile", model, "--bundle", tmp_path / "net", "--input-shapes", "x:[1|2,16]")
    assert ran.code == 2
    assert "--bundle takes one program; the shapes and targets make 2" in ran.err


def test_a_phone_gets_its_library_and_a_class_of_kotlin(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    need("ld.lld", "aarch64-linux-gnu-gcc")
    model = save(perceptron(), tmp_path)
    ran = run("compile", model, "--bundle", tmp_path / "net", "--device", "android-arm64")
    assert ran.code == 0, ran.err
    kotlin = (tmp_path / "net" / "Net.kt").read_text()
    assert "val x: ByteBuffer = buffer(0) // x [4, 16] float32" in kotlin
    assert "val output_0: ByteBuffer = buffer(1)" in kotlin
