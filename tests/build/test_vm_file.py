from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest

import tvm_fusionx as fx
from tests.data_models import built, looping
from tests.tiny_models import TARGET, perceptron
from tvm_fusionx.build.archive import BYTECODE, METADATA, read_members, sha256_of, write_members
from tvm_fusionx.build.library import Library, load_programs, save_library
from tvm_fusionx.build.programs import build_programs
from tvm_fusionx.build.vm_file import load_model, save_vm_program
from tvm_fusionx.build.vm_program import VmProgram
from tvm_fusionx.errors import LibraryFileError


@pytest.fixture(scope="module")
def program() -> VmProgram:
    return built(looping())


@pytest.fixture(scope="module")
def path(program: VmProgram, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("machine") / "double.tar"
    save_vm_program(program, path)
    return path


def test_a_program_comes_back_as_it_was(program: VmProgram, path: Path) -> None:
    loaded = load_model(path)
    assert isinstance(loaded, VmProgram)
    assert loaded.inputs == program.inputs
    assert loaded.outputs == program.outputs
    assert loaded.reason == program.reason
    assert [note.name for note in loaded.kernels] == [note.name for note in program.kernels]
    given = {"x": np.array([1, 2, 3, 4], "float32")}
    for ours, theirs in zip(loaded.run(**given), program.run(**given), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_every_member_is_named_in_the_description(path: Path) -> None:
    with tarfile.open(path) as archive:
        names = archive.getnames()
    described = json.loads(read_members(path)[METADATA])
    assert described["executor"] == "vm"
    assert sorted([*described["sha256"], METADATA]) == sorted(names)


def test_a_changed_bytecode_is_refused(path: Path, tmp_path: Path) -> None:
    members = read_members(path)
    changed = tmp_path / "changed.tar"
    write_members(changed, {**members, BYTECODE: members[BYTECODE][:-1] + b"!"})
    with pytest.raises(LibraryFileError, match=f"{BYTECODE} with SHA-256"):
        load_model(changed)


def test_bytecode_that_is_none_is_refused_where_its_sum_is_right(
    path: Path, tmp_path: Path
) -> None:
    members = read_members(path)
    members[BYTECODE] = b"no bytecode"
    described = json.loads(members.pop(METADATA))
    described["sha256"] = sha256_of(members)
    changed = tmp_path / "changed.tar"
    write_members(changed, {**members, METADATA: json.dumps(described).encode()})
    with pytest.raises(LibraryFileError, match=f"a complete {METADATA}"):
        load_model(changed)


def test_the_graph_executors_reader_says_what_reads_it(path: Path) -> None:
    with pytest.raises(LibraryFileError, match="virtual machine"):
        load_programs(path)


def test_a_library_of_the_graph_executor_is_read_too(tmp_path: Path) -> None:
    made = build_programs(perceptron(), TARGET, [{}])
    assert not isinstance(made, VmProgram)
    save_library(made.programs, tmp_path / "lib.tar")
    loaded = load_model(tmp_path / "lib.tar")
    assert isinstance(loaded, tuple)
    assert isinstance(loaded[0], Library)


def test_several_shapes_of_a_model_for_the_machine_are_refused() -> None:
    given = looping()
    given.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    with pytest.raises(fx.errors.FusionXError, match="one set of shapes"):
        build_programs(given, TARGET, [{"x": (4,)}, {"x": (8,)}])
