"""Candidates on a farm: two local raylets, each with a device that is this machine."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.devices.two_raylets import fixture_address  # noqa: F401
from tests.tuning.small_tasks import LOCAL, RESOLVED, dense_task, small_model
from tests.tuning.terrible_kernels import build_c_kernel
from tvm_fusionx.devices import Device
from tvm_fusionx.errors import DeviceError, DeviceLostError
from tvm_fusionx.records import own_file, read_records
from tvm_fusionx.schedules import target_key
from tvm_fusionx.tuning.bench import WRONG, Bench, Timing
from tvm_fusionx.tuning.build_candidates import INVALID, CandidateBuilder
from tvm_fusionx.tuning.comparison import compare_kernels
from tvm_fusionx.tuning.farm_bench import FarmBench, Place, call_there, identify
from tvm_fusionx.tuning.outcome import DEVICE_LOST
from tvm_fusionx.tuning.tune import tune

pytestmark = pytest.mark.slow
pytest.importorskip("ray", reason="ray is not installed")

TASK = dense_task()
BRIEF = Timing(repeats=2, milliseconds=1)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    (made,) = CandidateBuilder(LOCAL, folder, workers=0).build(TASK, [TASK.space.default])
    return made.path


def _farm(address: str, **options: Any) -> FarmBench:
    return FarmBench(LOCAL, timing=BRIEF, sleep=lambda _: None, address=address, **options)


def _process(bench: Bench) -> int:
    return os.getpid()


def _wait_for(bench: Bench, notes: str) -> int:
    folder = Path(notes)
    (folder / f"{os.getpid()}").write_text("")
    while not (folder / "go").exists():
        time.sleep(0.05)
    return os.getpid()


def test_a_candidate_runs_on_a_worker_and_is_compared(
    address: str, library: Path, tmp_path: Path
) -> None:
    bench = _farm(address)
    assert bench.call(_process) != os.getpid()
    outcome, outputs = bench.run(TASK, library, None)
    assert outcome.failure is None
    assert len(outcome.seconds) == BRIEF.repeats
    with Bench(LOCAL, timing=BRIEF) as here:
        _, expected = here.run(TASK, library, None)
    assert outputs is not None
    assert expected is not None
    np.testing.assert_array_equal(outputs[0], expected[0])
    assert bench.run(TASK, library, [outputs[0] * 1.01])[0].failure == WRONG
    again = Path(shutil.copy(library, tmp_path / "again.so"))
    times = compare_kernels(bench, TASK, [library, again], rounds=2)
    assert [len(each) for each in times] == [2, 2]


def _contents(bench: Bench, paths: list[Path]) -> list[bytes]:
    return [path.read_bytes() for path in paths]


def test_files_of_one_name_stay_apart(address: str, tmp_path: Path) -> None:
    paths = [tmp_path / word / "kernel.so" for word in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(path.parent.name)
    with _farm(address) as farm:
        assert farm.call(_contents, paths) == [b"one", b"two"]


def test_a_kernel_that_crashes_does_not_take_the_worker(
    address: str, library: Path, tmp_path: Path
) -> None:
    deadly = build_c_kernel(tmp_path, TASK.symbol, "*(volatile int*)0 = 1; return 0;")
    bench = _farm(address)
    outcome, _ = bench.run(TASK, deadly, None)
    assert outcome.failure == DEVICE_LOST
    assert bench.run(TASK, library, None)[0].failure is None


def test_a_worker_killed_in_mid_trial_is_replaced(address: str, tmp_path: Path) -> None:
    def kill() -> None:
        while not (begun := list(tmp_path.iterdir())):
            time.sleep(0.05)
        os.kill(int(begun[0].name), signal.SIGKILL)
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.05)
        (tmp_path / "go").write_text("")

    killing = threading.Thread(target=kill)
    killing.start()
    answered = _farm(address).call(_wait_for, str(tmp_path))
    killing.join()
    processes = {path.name for path in tmp_path.iterdir()} - {"go"}
    assert len(processes) == 2
    assert str(answered) in processes


def test_a_model_is_tuned_on_both_devices_of_a_farm(address: str, tmp_path: Path) -> None:
    brief: dict[str, Any] = {"workers": 0, "batch": 2, "rounds": 2, "finalists": 1, "trials": 2}
    report = tune(
        small_model(),
        "local",
        records=tmp_path,
        cluster=address,
        parallel=2,
        only=["dense"],
        **brief,
    )
    assert report.trials == brief["trials"]
    assert set(report.failures) <= {INVALID}
    assert report.peak is not None
    records = read_records(own_file(tmp_path))
    assert {each.hash for each in records} == {each.task.key for each in report.tasks}
    assert {each.target for each in records} == {target_key(RESOLVED)}


def test_a_worker_of_another_processor_is_refused(address: str) -> None:
    place = Place(LOCAL, BRIEF, None, "llvm of another", 0)
    with pytest.raises(DeviceError, match="a worker that compiles for llvm of another"):
        call_there(place, (0.0,), identify, ())
    with pytest.raises(DeviceLostError, match="the processor that was tuned first"):
        _farm(address, processor="another, 3 cores").call(identify)


def test_a_device_that_no_worker_has(address: str) -> None:
    waits: list[float] = []
    bench = replace(
        _farm(address),
        device=Device("tablet", "llvm", tracker="127.0.0.1:1", key="none"),
        back_off_seconds=(0.0, 1.0),
        sleep=waits.append,
    )
    with pytest.raises(DeviceLostError, match="a worker of the Ray cluster"):
        bench.expect()
    assert waits == [0.0, 1.0]
    with pytest.raises(DeviceError, match="device:tablet"):
        bench.call(_process)
