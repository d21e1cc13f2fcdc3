"""From a model to its answer on an emulated board, by the commands alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.cli.run_cli import Ran, runner
from tests.devices.emulated_board import emulated_boards
from tests.tiny_models import FEATURES, ROWS, perceptron, save
from tvm_fusionx.devices.emulation import Emulation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", name="board")
def fixture_board() -> Iterator[Emulation]:
    with emulated_boards() as emulation:
        yield emulation


@pytest.fixture(name="run")
def fixture_run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.mark.slow
def test_a_model_runs_on_a_board_as_it_does_here(
    board: Emulation, run: Callable[..., Ran], tmp_path: Path
) -> None:
    model = save(perceptron(), tmp_path)
    x = np.random.default_rng(8).standard_normal((ROWS, FEATURES)).astype("float32")
    np.savez(tmp_path / "in.npz", x=x)
    there = ("--device", "emulated-arm64", "--rpc-tracker", board.device.tracker or "")
    answers = []
    for name, words in (("here", ()), ("there", there)):
        library, outputs = tmp_path / f"{name}.tar", tmp_path / f"{name}.npz"
        compiled = run("compile", model, "-o", library, *words)
        assert compiled.code == 0, compiled.err
        ran = run("run", library, "--inputs", tmp_path / "in.npz", "--outputs", outputs, *words)
        assert ran.code == 0, ran.err
        with np.load(outputs) as written:
            answers.append(written["output_0"])
    assert "aarch64" in compiled.out
    np.testing.assert_allclose(answers[1], answers[0], rtol=0, atol=1e-6)

    timed = run("run", library, *there, "--print-time", "--repeat", "2")
    assert timed.code == 0, timed.err
    assert re.search(r"Init: .*Avg: [1-9].*\(2 x 1 runs, on emulated-arm64\)", timed.out)

    trace = tmp_path / "trace.json"
    profiled = run("run", library, *there, "--profile", "--trace", trace)
    assert profiled.code == 0, profiled.err
    assert re.search(r"Sum of [1-9]\d* kernels: .*end to end: ", profiled.out)
    assert json.loads(trace.read_text())["traceEvents"]

    # The one machine's library is not the other's.
    refused = run("run", library)
    assert refused.code == 2
    assert "aarch64" in refused.problem
    refused = run("run", tmp_path / "here.tar", *there)
    assert refused.code == 3
    assert "expected a library that the device takes and loads" in refused.problem


def test_this_machine_is_a_device_too(run: Callable[..., Ran], tmp_path: Path) -> None:
    model, library = save(perceptron(), tmp_path), tmp_path / "lib.tar"
    compiled = run("compile", model, "-o", library, "--device", "local")
    assert compiled.code == 0, compiled.err
    ran = run("run", library, "--device", "local", "--print-time", "--repeat", "2")
    assert ran.code == 0, ran.err
    assert "on local)" in ran.out
    profiled = run("run", library, "--device", "local", "--profile")
    assert profiled.code == 0, profiled.err
    assert "Sum of " in profiled.out
