from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvm_fusionx as fx
from tests.opencl_device import require_opencl
from tests.relay_modules import REASSOCIATING, assert_close
from tests.tiny_models import FEATURES, HIDDEN, TARGET, perceptron
from tvm_fusionx.build.library import load_library, load_programs, save_library
from tvm_fusionx.build.programs import Programs, build_programs
from tvm_fusionx.errors import InputError, LibraryFileError, ShapeError
from tvm_fusionx.report.bench.plain_tvm import run_once

BATCHES = (2, 4, 9)


@pytest.fixture(scope="module")
def programs() -> Programs:
    shapes = [{"x": (batch, FEATURES)} for batch in (4, 9, 2)]
    built = fx.build(perceptron("batch"), TARGET, shapes=shapes)
    assert isinstance(built, Programs)
    return built


def _rows(count: int) -> np.ndarray:
    return np.random.default_rng(count).standard_normal((count, FEATURES)).astype("float32")


def _alone(rows: np.ndarray) -> list[np.ndarray]:
    mod, params = fx.from_onnx(perceptron("batch"), shape={"x": rows.shape})
    return run_once(fx.build(mod, TARGET, params=params), {"x": rows})


def test_the_smallest_program_is_the_first(programs: Programs) -> None:
    assert [each.inputs[0].shape for each in programs.programs] == [(b, FEATURES) for b in BATCHES]


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_any_number_of_rows_is_computed_as_alone(programs: Programs, count: int) -> None:
    rows = _rows(count)
    outputs = programs.run(x=rows)
    assert outputs[0].shape == (count, HIDDEN)
    assert_close(outputs, _alone(rows), REASSOCIATING)
    # Again, in the executor that is there.
    assert np.array_equal(programs.run(x=rows)[0], outputs[0])


def test_an_executor_alone_has_weights_of_its_own(programs: Programs, tmp_path: Path) -> None:
    path = tmp_path / "several.tar"
    save_library(programs.programs, path)
    executor = load_programs(path)[1].executor()
    # What may lie where the library's weights were.
    scrap = [np.full(array.shape, np.nan, "float32") for _ in range(64) for array in [_rows(8)]]
    executor.set_input("x", _rows(4))
    executor.run()
    assert_close([executor.get_output(0).numpy()], programs.run(x=_rows(4)), REASSOCIATING)
    assert len(scrap) == 64


def test_too_many_rows_are_refused(programs: Programs) -> None:
    with pytest.raises(InputError, match="at most 9 along axis 0"):
        programs.run(x=_rows(10))


def test_constants_that_are_outputs_are_right() -> None:
    table = np.arange(8, dtype="float32").reshape(2, 4)
    rows = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "yzv"]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["y"]),
        helper.make_node("Identity", ["w"], ["z"]),
        helper.make_node("Reshape", ["w", "shape"], ["v"]),
    ]
    constants = [
        numpy_helper.from_array(table.T.copy(), "w"),
        numpy_helper.from_array(np.array([8]), "shape"),
    ]
    graph = helper.make_graph(nodes, "g", [rows], outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    built = fx.build(model, TARGET, shapes=[{"x": (1, 4)}, {"x": (3, 4)}])
    assert isinstance(built, Programs)
    for count in (1, 2):
        x = np.ones((count, 4), "float32")
        y, z, v = built.run(x=x)
        assert_close([y], [x @ table.T], REASSOCIATING)
        assert np.array_equal(z, table.T)
        assert np.array_equal(v, table.T.reshape(-1))


def test_weights_are_there_once(programs: Programs) -> None:
    first = {id(value) for value in programs.programs[0].params.values()}
    for program in programs.programs[1:]:
        assert first & {id(value) for value in program.params.values()}
    assert len({id(program.module) for program in programs.programs}) == 1


def test_a_file_holds_them_all_and_each_weight_once(programs: Programs, tmp_path: Path) -> None:
    path, one = tmp_path / "several.tar", tmp_path / "one.tar"
    save_library(programs.programs, path)
    loaded = Programs(load_programs(path))
    for count in (1, 4, 7):
        assert np.array_equal(loaded.run(x=_rows(count))[0], programs.run(x=_rows(count))[0])
    stored = [sorted(each.params) for each in loaded.programs]
    assert stored == [sorted(each.params) for each in programs.programs]
    with pytest.raises(LibraryFileError, match="expected one program; found 3"):
        load_library(path)
    save_library(programs.programs[0], one)
    assert len(load_programs(one)) == 1


def test_programs_that_share_a_kept_kernel_are_linked(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Softmax", ["y"], ["soft"]),
    ]
    given = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [5]),
    ]
    results = [
        helper.make_tensor_value_info("sum", TensorProto.FLOAT, []),
        helper.make_tensor_value_info("soft", TensorProto.FLOAT, [5]),
    ]
    opset = [helper.make_opsetid("", 17)]
    graph = helper.make_graph(nodes, "shared", given, results)
    model = helper.make_model(graph, opset_imports=opset, ir_version=8)
    shapes = [{"x": (batch, 3), "y": (5,)} for batch in (2, 4)]
    with fx.kernel_cache(tmp_path / "kernels"):
        built = fx.build(model, TARGET, shapes=shapes)
    save_library(built.programs, tmp_path / "two.tar")
    for batch, program in zip((2, 4), load_programs(tmp_path / "two.tar"), strict=True):
        executor = program.executor()
        executor.set_input("x", np.ones((batch, 3), "float32"))
        executor.set_input("y", np.zeros(5, "float32"))
        executor.run()
        assert executor.get_output(0).numpy() == 3 * batch
        np.testing.assert_allclose(executor.get_output(1).numpy(), 0.2, rtol=1e-6)


def test_a_file_without_one_of_its_graphs_is_refused(programs: Programs, tmp_path: Path) -> None:
    path, damaged = tmp_path / "several.tar", tmp_path / "damaged.tar"
    save_library(programs.programs, path)
    with tarfile.open(path) as whole, tarfile.open(damaged, "w") as less:
        for member in whole:
            if member.name != "program1.json":
                content = whole.extractfile(member)
                assert content is not None
                less.addfile(member, io.BytesIO(content.read()))
    with pytest.raises(LibraryFileError, match=r"program1\.json"):
        load_programs(damaged)


@pytest.mark.parametrize(
    "shapes",
    [
        [],
        [{"x": (2, FEATURES)}, {"x": [2, FEATURES]}],
        {"x": (2, FEATURES)},
        [None],
        [{"x": None}],
        [{"x": "ab"}],
        [{"x": (-1, FEATURES)}],
        5,
    ],
)
def test_shapes_are_some_and_differ(shapes: Any) -> None:
    with pytest.raises(ShapeError, match="no two the same"):
        build_programs(perceptron("batch"), TARGET, shapes)


@pytest.mark.slow
def test_programs_for_opencl_run_on_its_device(programs: Programs) -> None:
    require_opencl()
    built = fx.build(
        perceptron("batch"), "opencl", shapes=[{"x": (2, FEATURES)}, {"x": (4, FEATURES)}]
    )
    assert isinstance(built, Programs)
    for count in (1, 3):
        rows = _rows(count)
        assert_close(built.run(x=rows), programs.run(x=rows), REASSOCIATING)
