from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm

import tvm_fusionx as fx
from tests.tiny_models import HIDDEN, ROWS, TARGET, perceptron
from tvm_fusionx.build.kernels import KernelGraph, KernelNote
from tvm_fusionx.build.library import (
    CODE,
    FORMAT_VERSION,
    GRAPH,
    METADATA,
    PARAMS,
    SEVERAL_PROGRAMS_VERSION,
    Library,
    describe_library,
    load_library,
    save_library,
)
from tvm_fusionx.errors import LibraryFileError, MissingDependencyError, OutputFileError
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules.block_work import Work

Members = dict[str, bytes]


@pytest.fixture(scope="module")
def library() -> Library:
    mod, params = fx.from_onnx(perceptron())
    return describe_library(
        fx.build(mod, TARGET, params=params),
        model="../perceptron; rm -rf x",
        target=TARGET,
        inputs=inputs_of(mod, params),
        kernels=(KernelNote("dense", ("fc1",), "dot", 1024, work=Work(flops=1024)),),
    )


@pytest.fixture(scope="module")
def path(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "model.tar"
    save_library(library, path)
    return path


def _members(path: Path) -> Members:
    with tarfile.open(path) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]


def _write(path: Path, members: Members) -> Path:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return path


def test_what_is_saved_is_what_is_loaded_and_it_computes_the_same(
    library: Library, path: Path
) -> None:
    loaded = load_library(path)
    assert loaded.graph_json == library.graph_json
    for name in ("model", "target", "inputs", "outputs", "kernels", "versions"):
        assert getattr(loaded, name) == getattr(library, name)
    assert [(spec.shape, spec.dtype) for spec in loaded.outputs] == [((ROWS, HIDDEN), "float32")]
    arrays = random_inputs(loaded.inputs)
    results = []
    for either in (library, loaded):
        executor = either.executor()
        executor.set_input("x", arrays["x"])
        executor.run()
        results.append(executor.get_output(0).numpy())
    assert np.array_equal(*results)


def test_the_same_library_is_written_byte_for_byte_but_for_its_code(
    library: Library, path: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again.tar"
    save_library(library, again)
    first, second = _members(path), _members(again)
    assert first[GRAPH] == second[GRAPH]
    assert first[PARAMS] == second[PARAMS]


def test_the_file_describes_itself(library: Library, path: Path) -> None:
    described = json.loads(_members(path)[METADATA])
    assert described["format_version"] == FORMAT_VERSION
    assert described["kernel_count"] == len(KernelGraph.from_json(library.graph_json).kernels)
    assert set(described["sha256"]) == {CODE, GRAPH, PARAMS}
    assert described["inputs"] == [{"name": "x", "shape": [4, 16], "dtype": "float32"}]
    assert set(described["versions"]) >= {"tvm", "tvm_fusionx", "llvm"}


@pytest.mark.slow
def test_tvmc_runs_the_file(path: Path, tmp_path: Path) -> None:
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    arrays = random_inputs(load_library(path).inputs)
    np.savez(inputs, **arrays)
    command = [sys.executable, "-m", "tvm.driver.tvmc", "run", str(path)]
    command += ["--inputs", str(inputs), "--outputs", str(outputs)]
    subprocess.run(command, check=True, capture_output=True)
    executor = load_library(path).executor()
    executor.set_input("x", arrays["x"])
    executor.run()
    assert np.array_equal(np.load(outputs)["output_0"], executor.get_output(0).numpy())


def _without(name: str) -> Callable[[Members], Members]:
    return lambda members: {key: value for key, value in members.items() if key != name}


def _with(name: str, content: bytes) -> Callable[[Members], Members]:
    return lambda members: {**members, name: content}


def _flip_last_byte(name: str) -> Callable[[Members], Members]:
    return lambda members: {**members, name: members[name][:-1] + bytes([members[name][-1] ^ 1])}


def _metadata(change: Callable[[dict[str, object]], object]) -> Callable[[Members], Members]:
    def changed(members: Members) -> Members:
        described = json.loads(members[METADATA])
        change(described)
        return {**members, METADATA: json.dumps(described).encode()}

    return changed


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_without(CODE), "no mod.so"),
        (_without(METADATA), "no fusionx.json"),
        (_flip_last_byte(CODE), "mod.so with SHA-256"),
        (_flip_last_byte(PARAMS), "mod.params with SHA-256"),
        (_with(GRAPH, b"{}"), "mod.json with SHA-256"),
        (_with(METADATA, b"{not json"), "readable fusionx.json"),
        (_with(METADATA, b"[]"), "readable fusionx.json"),
        (
            _metadata(lambda d: d.update(format_version=SEVERAL_PROGRAMS_VERSION + 1)),
            "format version",
        ),
        (_metadata(lambda d: d.pop("sha256")), "readable fusionx.json"),
        (_metadata(lambda d: d.pop("inputs")), "complete fusionx.json"),
        (_metadata(lambda d: d.update(outputs=[{"name": 1}])), "complete fusionx.json"),
        (_with("../../escape", b"x"), r"'\.\./\.\./escape'"),
        (_with("/tmp/absolute", b"x"), "'/tmp/absolute'"),
        (_with("extra.pkl", b"x"), "'extra.pkl'"),
    ],
)
def test_a_damaged_or_foreign_file_is_refused(
    path: Path, tmp_path: Path, damage: Callable[[Members], Members], said: str
) -> None:
    bad = _write(tmp_path / "bad.tar", damage(_members(path)))
    with pytest.raises(LibraryFileError, match=said) as caught:
        load_library(bad)
    assert str(bad) in caught.value.thing
    assert caught.value.next_step


def test_a_link_in_the_place_of_a_member_is_refused(path: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.tar"
    with tarfile.open(bad, "w") as archive:
        link = tarfile.TarInfo(CODE)
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(LibraryFileError, match=r"mod\.so"):
        load_library(bad)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.5, 0.8])
def test_a_truncated_file_is_refused(path: Path, tmp_path: Path, part: float) -> None:
    bad = tmp_path / "bad.tar"
    content = path.read_bytes()
    bad.write_bytes(content[: int(part * len(content))])
    with pytest.raises(LibraryFileError):
        load_library(bad)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for absent in (tmp_path / "none.tar", tmp_path):
        with pytest.raises(LibraryFileError, match=str(absent)):
            load_library(absent)


def test_code_for_another_machine_is_refused_with_its_target(path: Path, tmp_path: Path) -> None:
    import hashlib

    members = _members(path)
    foreign = b"\x7fELF" + bytes(60)
    described = json.loads(members[METADATA])
    described["sha256"][CODE] = hashlib.sha256(foreign).hexdigest()
    members = {**members, CODE: foreign, METADATA: json.dumps(described).encode()}
    with pytest.raises(LibraryFileError, match="this machine"):
        load_library(_write(tmp_path / "bad.tar", members))


def test_a_file_that_cannot_be_written_leaves_nothing(library: Library, tmp_path: Path) -> None:
    with pytest.raises(OutputFileError):
        save_library(library, tmp_path / "missing" / "model.tar")
    assert list(tmp_path.iterdir()) == []


def test_without_a_compiler_the_message_says_what_to_install(
    library: Library, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    assert shutil.which("g++") is None
    with pytest.raises(MissingDependencyError, match="C\\+\\+ compiler"):
        save_library(library, tmp_path / "model.tar")


def test_a_loaded_library_is_what_a_factory_is_to_the_executors(path: Path) -> None:
    loaded = load_library(path)
    assert loaded.get_graph_json() == loaded.graph_json
    assert loaded.get_lib() is loaded.module
    assert isinstance(loaded.get_lib(), tvm.runtime.Module)
    mod, params = fx.from_onnx(perceptron())
    arrays = random_inputs(loaded.inputs)
    executor = loaded.executor()
    executor.set_input("x", arrays["x"])
    executor.run()
    want = run_once(fx.build(mod, TARGET, params=params), arrays)[0]
    assert np.array_equal(executor.get_output(0).numpy(), want)
