from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvm_fusionx as fx
from tests.cli.run_cli import Ran, runner
from tests.tiny_models import FEATURES, HIDDEN, ROWS, TARGET, perceptron
from tvm_fusionx.build.fused_build import build_fused, kernel_notes
from tvm_fusionx.build.library import Library, describe_library, load_library, save_library
from tvm_fusionx.inputs import inputs_of, read_inputs


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    mod, params = fx.from_onnx(perceptron())
    path = tmp_path_factory.mktemp("run") / "lib.tar"
    build = build_fused(mod, TARGET, params)
    described = describe_library(
        build.library,
        model="m",
        target=TARGET,
        inputs=inputs_of(mod, params),
        kernels=kernel_notes(build),
    )
    save_library(described, path)
    return path


def test_outputs_are_written_by_name(
    run: Callable[..., Ran], library: Path, tmp_path: Path
) -> None:
    inputs, outputs = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(inputs, x=np.ones((ROWS, FEATURES), "float32"))
    ran = run("run", library, "--inputs", inputs, "--outputs", outputs)
    assert ran.code == 0, ran.err
    with np.load(outputs) as written:
        assert written.files == ["output_0"]
        np.testing.assert_allclose(written["output_0"].sum(axis=1), np.ones(ROWS), rtol=1e-6)


def test_files_hold_bfloat16(run: Callable[..., Ran], tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.BFLOAT16, [2, 3]) for name in "xy"]
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    model, library, outputs = (tmp_path / name for name in ("m.onnx", "m.tar", "out.npz"))
    opsets = [helper.make_opsetid("", 22)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), model)
    assert run("compile", model, "-o", library).code == 0
    numbers = np.array([[1.5, -2, 3], [-0.5, 0, 300]], "bfloat16")
    for given in (numbers, numbers.view("uint16")):
        np.savez(tmp_path / "in.npz", x=given)
        ran = run("run", library, "--inputs", tmp_path / "in.npz", "--outputs", outputs)
        assert ran.code == 0, ran.err
        found = read_inputs(outputs)["output_0"]
        np.testing.assert_array_equal(found, np.maximum(numbers, 0))
    described = run("run", library, "--inputs", tmp_path / "in.npz", "--print-top", "1")
    assert "output_0:[2,3] bfloat16: from 0 to 300" in described.out
    assert "[1,2] 300" in described.out
    np.savez(tmp_path / "in.npz", x=np.ones((2, 3), "float32"))
    ran = run("run", library, "--inputs", tmp_path / "in.npz")
    assert ran.code == 2
    assert "ml_dtypes.bfloat16" in ran.err


def test_without_files_the_inputs_are_random_and_the_outputs_described(
    run: Callable[..., Ran], library: Path
) -> None:
    ran = run("run", library)
    assert ran.code == 0
    assert "random" in ran.err
    assert f"output_0:[{ROWS},{HIDDEN}] float32: from " in ran.out


def test_print_time_is_one_line_of_times_that_are_not_zero(
    run: Callable[..., Ran], library: Path
) -> None:
    ran = run("run", library, "--print-time", "--repeat", "3", "--number", "2", "--threads", "1")
    (line,) = [line for line in ran.out.splitlines() if line.startswith("Init: ")]
    names = re.findall(r"(\w[\w-]*): [1-9][\d.]* (?:s|ms|µs|ns)", line)
    assert names == ["Init", "First", "Warm-up", "Avg", "Median", "p10", "p90"]
    assert "(3 x 2 runs, 1 threads)" in line


def test_a_timed_run_keeps_its_threads_apart(
    run: Callable[..., Ran], library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def threads_apart(threads: int) -> AbstractContextManager[None]:
        asked.append(threads)
        return nullcontext()

    monkeypatch.setattr("tvm_fusionx.report.bench.timing.threads_apart", threads_apart)
    ran = run("run", library, "--print-time", "--repeat", "1", "--threads", "1")
    assert ran.code == 0, ran.err
    assert asked == [1]


def test_profile_shows_every_block_the_sum_and_the_gap(
    run: Callable[..., Ran], library: Path
) -> None:
    ran = run("run", library, "--profile")
    assert ran.code == 0, ran.err
    assert "GB/s" in ran.out
    assert "dense" in ran.out
    assert re.search(r"%.* no +\w+\n +\S*dense\S*: fc1, act", ran.out)
    assert max(map(len, ran.out.splitlines())) <= 80
    assert re.search(r"Peak: \d+ GFLOP/s", ran.out)
    assert re.search(
        r"Sum of \d+ kernels: .* end to end: .* (more|less) \(", ran.out.replace("\n", " ")
    )
    assert "0.000" not in ran.out


def test_a_trace_is_written_for_perfetto(
    run: Callable[..., Ran], library: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace.json"
    ran = run("run", library, "--trace", trace)
    assert ran.code == 0, ran.err
    events = json.loads(trace.read_text())["traceEvents"]
    assert {"run", *(note.name for note in load_library(library).kernels)} <= {
        event["name"] for event in events
    }
    assert run("run", library, "--trace", tmp_path / "no" / "trace.json").code == 2


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"y": np.ones((ROWS, FEATURES), "float32")}, "'y'"),
        ({"x": np.ones((1, FEATURES), "float32")}, "shape (1, 16)"),
        ({"x": np.ones((ROWS, FEATURES), "float64")}, "dtype float64"),
    ],
    ids=["name", "shape", "dtype"],
)
def test_wrong_inputs_are_2_and_nothing_is_written(
    run: Callable[..., Ran], library: Path, tmp_path: Path, arrays: dict[str, np.ndarray], said: str
) -> None:
    inputs = tmp_path / "in.npz"
    np.savez(inputs, **arrays)
    ran = run("run", library, "--inputs", inputs, "--outputs", tmp_path / "out.npz")
    assert ran.code == 2
    assert said in ran.problem
    assert not (tmp_path / "out.npz").exists()


def test_a_corrupt_library_is_2_and_an_unwritable_output_3(
    run: Callable[..., Ran], library: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.tar"
    content = bytearray(library.read_bytes())
    content[5000] ^= 0xFF
    bad.write_bytes(content)
    ran = run("run", bad)
    assert ran.code == 2
    assert "SHA-256" in ran.problem
    ran = run("run", library, "--outputs", tmp_path / "missing" / "out.npz")
    assert ran.code == 2
    assert "missing" in ran.problem


@pytest.mark.parametrize(("mode", "value"), [("zeros", 0.0), ("ones", 1.0)])
def test_inputs_are_filled_as_in_tvmc(
    run: Callable[..., Ran], library: Path, tmp_path: Path, mode: str, value: float
) -> None:
    given = tmp_path / "in.npz"
    np.savez(given, x=np.full((ROWS, FEATURES), value, "float32"))
    for number, options in enumerate((["--inputs", given], ["--fill-mode", mode])):
        ran = run("run", library, *options, "--outputs", tmp_path / f"{number}.npz")
        assert ran.code == 0, ran.err
        assert "random" not in ran.err
    first, second = (np.load(tmp_path / f"{number}.npz")["output_0"] for number in range(2))
    np.testing.assert_array_equal(first, second)


def test_what_is_given_goes_before_what_is_filled(
    run: Callable[..., Ran], library: Path, tmp_path: Path
) -> None:
    given, written = tmp_path / "in.npz", tmp_path / "out.npz"
    np.savez(given, x=np.arange(ROWS * FEATURES, dtype="float32").reshape(ROWS, FEATURES))
    outputs = []
    for options in ([], ["--fill-mode", "zeros"]):
        assert run("run", library, "--inputs", given, *options, "--outputs", written).code == 0
        outputs.append(np.load(written)["output_0"])
    np.testing.assert_array_equal(*outputs)


def test_the_largest_values_are_printed_with_their_places(
    run: Callable[..., Ran], library: Path, tmp_path: Path
) -> None:
    written = tmp_path / "out.npz"
    ran = run("run", library, "--print-top", "3", "--outputs", written)
    assert ran.code == 0, ran.err
    output = np.load(written)["output_0"]
    _, *shown = ran.out.splitlines()
    assert shown == [
        f"  [{place // HIDDEN},{place % HIDDEN}] {output.flat[place]:.6g}"
        for place in np.argsort(-output, axis=None, kind="stable")[:3]
    ]


def test_runs_before_the_timed_ones_are_counted(
    run: Callable[..., Ran], library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    executor_of = Library.executor

    def counting(self: Library, device: Any = None) -> Any:
        executor = executor_of(self, device)
        run_once = executor.run
        executor.run = lambda: (runs.append(1), run_once())
        return executor

    monkeypatch.setattr(Library, "executor", counting)
    counts = []
    for warmup in ("0", "7"):
        runs.clear()
        ran = run("run", library, "--print-time", "--repeat", "2", "--warmup", warmup)
        assert ("Warm-up" in ran.out) is (warmup != "0")
        counts.append(len(runs))
    assert counts == [3, 10]
