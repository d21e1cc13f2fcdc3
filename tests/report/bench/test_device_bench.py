"""Benchmarks on devices: an emulated board, OpenCL on this processor, and this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tvm_fusionx as fx
from tests.devices.emulated_board import emulated_boards
from tests.tiny_models import perceptron
from tvm_fusionx.devices import Device, find_device
from tvm_fusionx.devices.emulation import Emulation
from tvm_fusionx.devices.opencl_plugin import why_no_opencl
from tvm_fusionx.errors import DeviceError, DeviceLostError, InputError
from tvm_fusionx.report.bench import device_bench
from tvm_fusionx.report.bench.bench_result import BenchResult

SIDES = {"fusionx", "tvm", "unfused"}


@pytest.fixture(scope="module", name="board")
def fixture_board() -> Iterator[Emulation]:
    with emulated_boards() as emulation:
        yield emulation


def _check(result: BenchResult, device: Device) -> None:
    assert result.errors == {}
    assert set(result.latency_ms) == set(result.load_s) == set(result.first_run_s) == SIDES
    assert all(each.n == 2 and each.median > 0 for each in result.latency_ms.values())
    assert all(seconds > 0 for seconds in (*result.load_s.values(), *result.first_run_s.values()))
    assert result.max_rel_err <= 1e-5
    assert result.device.startswith(f"{device.name}: ")
    assert result.target == str(device.tvm_target())
    assert result.kernels["unfused"] == 5


def test_this_machine_is_a_device() -> None:
    device = find_device("local")
    result = fx.bench(perceptron(), device="local", repeat=2)
    _check(result, device)
    assert result.remarks == []


def test_one_thread_of_this_machine() -> None:
    result = fx.bench(perceptron(), device="local", vs=(), threads=1, repeat=1)
    assert result.threads == 1
    assert "-num-cores=1" in result.target


@pytest.mark.slow
def test_an_emulated_board_says_that_it_is_one(board: Emulation) -> None:
    result = fx.bench(perceptron(), device=board.device, repeat=2)
    _check(result, board.device)
    assert result.threads == 2
    assert "emulated by qemu-aarch64" in result.device
    assert result.remarks == [device_bench.EMULATED.format(emulator="qemu-aarch64")]


@pytest.mark.slow
def test_opencl_on_a_processor_says_that_it_is_no_gpu() -> None:
    problem = why_no_opencl()
    if problem is not None:
        pytest.skip(problem)
    result = fx.bench(perceptron(), device="pocl", repeat=2)
    _check(result, find_device("pocl"))
    assert device_bench.POCL_REMARK in result.remarks


def test_other_runtimes_are_refused_with_the_reason_before_any_work() -> None:
    with pytest.raises(InputError, match=r"no program there; found 'ort', 'mnn'"):
        fx.bench("missing.onnx", device="emulated-arm64", vs=("tvm", "ort", "mnn"))


def test_threads_are_for_the_target_of_another_device_to_say() -> None:
    with pytest.raises(DeviceError, match="-num-cores=4"):
        fx.bench("missing.onnx", device="emulated-arm64", threads=4)


@pytest.mark.slow
@pytest.mark.parametrize("breaks_the_session", [False, True])
def test_a_side_that_fails_there_is_left_out(
    monkeypatch: pytest.MonkeyPatch, breaks_the_session: bool
) -> None:
    start = device_bench._start
    sessions: list[Any] = []

    def fail(session: Any, library: Any, path: Any, arrays: Any) -> Any:
        sessions.append(session)
        if path.stem != "tvm":
            return start(session, library, path, arrays)
        if breaks_the_session:
            session._hang_up()
        raise DeviceError("kernel", expected="an answer", found="none", next_step="Look.")

    monkeypatch.setattr(device_bench, "_start", fail)
    result = fx.bench(perceptron(), device="local", repeat=1)
    assert set(result.latency_ms) == {"fusionx", "unfused"}
    assert set(result.errors) == {"tvm"}
    assert len(set(map(id, sessions))) == 1 + breaks_the_session


def test_nothing_is_told_where_ours_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: Any) -> None:
        raise DeviceLostError("device", expected="an answer", found="none", next_step="Look.")

    monkeypatch.setattr(device_bench, "_start", lost)
    with pytest.raises(DeviceLostError):
        fx.bench(perceptron(), device="local", vs=(), repeat=1)
