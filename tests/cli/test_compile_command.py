from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.run_cli import Ran, runner
from tests.tiny_models import FEATURES, ROWS, perceptron, save
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.build.library import load_library
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.records import Record, write_records
from tvm_fusionx.records.device import this_device
from tvm_fusionx.schedules import resolve_target, target_key

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


def test_a_model_becomes_one_file_that_describes_itself(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model = save(perceptron(), tmp_path, "tiny net.onnx")
    output = tmp_path / "lib.tar"
    ran = run("compile", model, "-o", output, "--dump-code", "relay,ll")
    assert ran.code == 0, ran.err
    assert f"{output}: " in ran.out
    library = load_library(output)
    assert library.model == "tiny net"
    assert "native" not in library.target
    assert library.inputs[0].shape == (ROWS, FEATURES)
    assert all(note.template for note in library.kernels)
    assert "def @main" in (tmp_path / "lib.tar.relay").read_text()
    assert "define" in (tmp_path / "lib.tar.ll").read_text()


def test_the_devices_own_records_count(run: Callable[..., Ran], tmp_path: Path) -> None:
    model = save(perceptron(), tmp_path)
    mod, params = from_onnx(model)
    build = build_fused(mod, "llvm -mcpu=native", params)
    key = target_key(resolve_target("llvm -mcpu=native"))
    here = this_device(resolve_target("llvm -mcpu=native")) or ""
    records = [
        Record(key, str(entry.key), entry.template, entry.knobs, device=here, trials=1)
        for entry in build.log.entries
    ]
    newer = [replace(each, device="another", measured_at=2.0, trials=0) for each in records]
    write_records(tmp_path / "records", [*records, *newer])
    for options in ([], ["--device", "local"]):
        ran = run(
            "compile",
            model,
            "-o",
            tmp_path / "l.tar",
            *options,
            "--tuning-records",
            tmp_path / "records",
        )
        assert ran.code == 0, ran.err
        assert f"{len(records)} of {len(records)} blocks tuned\n" in ran.out
    write_records(tmp_path / "records", [records[0], *newer[1:]])
    ran = run("compile", model, "-o", tmp_path / "l.tar", "--tuning-records", tmp_path / "records")
    assert "records of 2 devices" in ran.out


def test_a_dynamic_shape_is_refused_until_it_is_given(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model = save(perceptron(batch="batch"), tmp_path)
    output = tmp_path / "lib.tar"
    refused = run("compile", model, "-o", output)
    assert refused.code == 2
    assert "--input-shapes" in refused.problem
    assert "x" in refused.problem
    assert not output.exists()
    assert run("compile", model, "-o", output, "--input-shapes", f"x:[2,{FEATURES}]").code == 0
    assert load_library(output).inputs[0].shape == (2, FEATURES)


def _truncated(folder: Path) -> Path:
    path = save(perceptron(), folder)
    path.write_bytes(path.read_bytes()[:200])
    return path


def _unsupported(folder: Path) -> Path:
    nodes = [helper.make_node("Fly", ["x"], ["y"], name="wings", domain="org.birds")]
    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in "xy"]
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("org.birds", 1)]
    graph = helper.make_graph(nodes, "birds", value[:1], value[1:])
    return save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_truncated, "model.onnx"),
        (_unsupported, "wings"),
        (lambda folder: folder / "absent.onnx", "absent.onnx"),
        (lambda folder: folder, "folder"),
    ],
    ids=["truncated", "unsupported operator", "missing", "a folder"],
)
def test_a_model_that_cannot_be_compiled_is_said_in_one_sentence(
    run: Callable[..., Ran], tmp_path: Path, make: Callable[[Path], Path], said: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    ran = run("compile", make(folder), "-o", tmp_path / "lib.tar")
    assert ran.code == 2, ran.err
    assert said in ran.problem
    assert not (tmp_path / "lib.tar").exists()


def test_an_unknown_target_is_2_and_quoted(run: Callable[..., Ran], tmp_path: Path) -> None:
    model = save(perceptron(), tmp_path)
    ran = run("compile", model, "-o", tmp_path / "lib.tar", "--target", "toaster -slots=2")
    assert ran.code == 2
    assert "toaster -slots=2" in ran.problem


@pytest.mark.parametrize(
    ("target", "precision"), [("opencl", "float16"), ("llvm", "float16"), ("llvm", "bfloat16")]
)
def test_what_lies_between_kernels_may_have_16_bits(
    run: Callable[..., Ran], tmp_path: Path, target: str, precision: str
) -> None:
    model = save(perceptron(), tmp_path)
    output = tmp_path / "lib.tar"
    options = ("--precision", precision, "--target", target, "--dump-code", "relay")
    ran = run("compile", model, "-o", output, *options)
    assert ran.code == 0, ran.err
    assert f'dtype="{precision}"' in (tmp_path / "lib.tar.relay").read_text()


def test_a_precision_that_kernels_do_not_convert_is_2(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model = save(perceptron(), tmp_path)
    options = ("--precision", "bfloat16", "--target", "opencl")
    refused = run("compile", model, "-o", tmp_path / "lib.tar", *options)
    assert refused.code == 2
    assert "precision: expected of float16" in refused.problem
    assert run("compile", model, "-o", tmp_path / "lib.tar", "--precision", "int8").code == 2


def test_an_output_that_cannot_be_written_is_2_before_any_work(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = run("compile", tmp_path / "absent.onnx", "-o", tmp_path / "missing" / "lib.tar")
    assert ran.code == 2
    assert str(tmp_path / "missing" / "lib.tar") in ran.problem


@pytest.mark.parametrize(
    "target", ["llvm -mcpu=pentium9", "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a760", "cuda"]
)
def test_a_target_without_code_is_2_and_all_that_is_said(
    run: Callable[..., Ran], tmp_path: Path, target: str
) -> None:
    model = save(perceptron(), tmp_path)
    ran = run("compile", model, "-o", tmp_path / "lib.tar", "--target", target)
    assert ran.code == 2
    assert ran.err == ran.problem + "\n"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder with space for a few kilobytes."""
    folder = tmp_path / "small"
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    mount = shutil.which("mount")
    if mount is None or subprocess.run(options, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_temporary_folder_is_3_and_leaves_nothing(tmp_path: Path, small_disk: Path) -> None:
    model = save(perceptron(), tmp_path)
    ran = subprocess.run(
        [sys.executable, "-m", "tvm_fusionx", "compile", str(model), "-o", str(tmp_path / "l.tar")],
        env={**os.environ, "TMPDIR": str(small_disk), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"fusionx: temporary folder {small_disk}")
    assert "expected space to write; found No space left on device" in line
    assert list(small_disk.iterdir()) == []
    assert not (tmp_path / "l.tar").exists()


def test_a_linker_without_space_is_a_full_disk(run: Callable[..., Ran], tmp_path: Path) -> None:
    compiler = tmp_path / "full-g++"
    compiler.write_text(
        "#!/bin/sh\necho 'ld: final link failed: No space left on device'\nexit 1\n"
    )
    compiler.chmod(0o755)
    model = save(perceptron(), tmp_path)
    ran = run("compile", model, "-o", tmp_path / "l.tar", "--cross-compiler", compiler)
    assert ran.code == 3
    assert "temporary folder" in ran.problem
    assert "expected space to write" in ran.problem


def test_records_of_another_target_and_damaged_records_are_refused(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    model = save(perceptron(), tmp_path)
    records = tmp_path / "records.jsonl"
    for content, said in (
        (
            '{"version": 1, "target": "llvm other-cpu", "hash": "1", "template": "dot", '
            '"knobs": {}}',
            "other-cpu",
        ),
        ('{"target": ', "line 1"),
    ):
        records.write_text(content)
        ran = run("compile", model, "-o", tmp_path / "lib.tar", "--tuning-records", records)
        assert ran.code == 2
        assert said in ran.problem


def test_a_dump_format_that_does_not_exist_is_wrong_usage(
    run: Callable[..., Ran], tmp_path: Path
) -> None:
    ran = run("compile", tmp_path / "m.onnx", "--dump-code", "cobol")
    assert ran.code == 2
    assert "cobol" in ran.err


def test_a_name_with_shell_characters_is_only_a_name(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = perceptron()
    model.graph.name = model.graph.node[0].name = "$(touch pwned); `touch pwned`"
    onnx.save(model, "a; touch pwned.onnx")
    ran = run("compile", "a; touch pwned.onnx", "-o", "b $(touch pwned).tar")
    assert ran.code == 0, ran.err
    assert not Path("pwned").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--cross-compiler", "no-such-g++"), "no-such-g++"),
        (("--cross-compiler", "false"), "says nothing"),
        (("--target", "llvm -mtriple=aarch64-linux-gnu"), "--cross-compiler"),
    ],
    ids=["not installed", "fails", "of another processor"],
)
def test_a_compiler_that_cannot_link_is_3_and_leaves_nothing(
    run: Callable[..., Ran], tmp_path: Path, options: tuple[str, str], said: str
) -> None:
    output = tmp_path / "lib.tar"
    refused = run("compile", save(perceptron(), tmp_path), "-o", output, *options)
    assert refused.code == 3
    assert said in refused.problem
    assert not output.exists()


def test_the_named_compiler_links(run: Callable[..., Ran], tmp_path: Path) -> None:
    output, mark = tmp_path / "lib.tar", tmp_path / "called"
    compiler = tmp_path / "own-g++"
    compiler.write_text(f'#!/bin/sh\ntouch "{mark}"\nexec g++ "$@"\n')
    compiler.chmod(0o755)
    ran = run("compile", save(perceptron(), tmp_path), "-o", output, "--cross-compiler", compiler)
    assert ran.code == 0, ran.err
    assert mark.exists()
    assert load_library(output).module is not None


def test_denormals_are_kept_on_request(run: Callable[..., Ran], tmp_path: Path) -> None:
    model = save(perceptron(), tmp_path)
    output = tmp_path / "lib.tar"
    for options, expected in (([], True), (["--denormals", "keep"], False)):
        ran = run("compile", model, "-o", output, "--dump-code", "ll", *options)
        assert ran.code == 0, ran.err
        code = (tmp_path / "lib.tar.ll").read_text()
        assert any(name in code for name in ("ldmxcsr", "set.fpcr")) == expected
    assert run("compile", model, "-o", output, "--denormals", "lose").code == 2


def test_a_library_has_a_version_for_each_target(run: Callable[..., Ran], tmp_path: Path) -> None:
    model, output = save(perceptron(), tmp_path), tmp_path / "lib.tar"
    arm = "llvm -mtriple=aarch64-linux-gnu -mcpu="
    words = ["compile", model, "-o", output, "--target", f"{arm}cortex-a53", "--also-target"]
    if shutil.which("aarch64-linux-gnu-g++") is not None:
        linked = run(*words, f"{arm}cortex-a76", "--cross-compiler", "aarch64-linux-gnu-g++")
        assert linked.code == 0, linked.err
        plain, better = linked.out.splitlines()
        assert "-mcpu=cortex-a53" in plain
        assert better.endswith("cortex-a76, on cores with dotprod, fullfp16, lse, rcpc, rdm")
    refused = run(*words, "llvm")
    assert refused.code == 2
    assert "AArch64 under Linux or Android" in refused.err
    bundle = run(*words, f"{arm}cortex-a76", "--bundle", tmp_path / "bundle")
    assert bundle.code == 2
    assert "--bundle takes one program; the shapes and targets make 2" in bundle.err
