"""Candidates on the real local device: right, wrong, crashing, hanging, and a device that goes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.small_tasks import LOCAL, dense_task
from tests.tuning.terrible_kernels import build_c_kernel
from tvm_fusionx.devices import Device
from tvm_fusionx.errors import DeviceLostError
from tvm_fusionx.tuning.bench import RUN_FAILED, WRONG, Bench, Timing
from tvm_fusionx.tuning.build_candidates import CandidateBuilder
from tvm_fusionx.tuning.outcome import DEVICE_LOST, TIMEOUT

pytestmark = pytest.mark.slow

TASK = dense_task()
BRIEF = Timing(repeats=2, milliseconds=1)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels")
    (made,) = CandidateBuilder(LOCAL, folder, workers=0).build(TASK, [TASK.space.default])
    return made.path


def _bench(**options: Any) -> Bench:
    return Bench(LOCAL, timing=BRIEF, sleep=lambda _: None, **options)


def test_a_candidate_is_run_compared_and_timed(library: Path) -> None:
    with _bench() as bench:
        outcome, outputs = bench.run(TASK, library, None)
        assert outputs is not None
        assert outcome.failure is None
        assert len(outcome.seconds) == BRIEF.repeats
        again, _ = bench.run(TASK, library, outputs)
        assert again.failure is None
        wrong, _ = bench.run(TASK, library, [outputs[0] * 1.01])
    assert wrong.failure == WRONG
    assert "output 0" in wrong.detail


def test_a_kernel_that_forgets_elements_is_wrong(library: Path, tmp_path: Path) -> None:
    lazy = build_c_kernel(tmp_path, TASK.symbol, "return 0;")
    with _bench() as bench:
        _, outputs = bench.run(TASK, library, None)
        outcome, _ = bench.run(TASK, lazy, outputs)
    assert outcome.failure == WRONG


@pytest.mark.slow
def test_a_kernel_that_crashes_takes_its_server_and_not_us(library: Path, tmp_path: Path) -> None:
    deadly = build_c_kernel(tmp_path, TASK.symbol, "*(volatile int*)0 = 1; return 0;")
    with _bench() as bench:
        outcome, _ = bench.run(TASK, deadly, None)
        assert outcome.failure == DEVICE_LOST
        assert outcome.is_quarantined
        assert bench.run(TASK, library, None)[0].failure is None, "a new session is opened"


@pytest.mark.slow
def test_a_kernel_that_hangs_is_ended(library: Path, tmp_path: Path) -> None:
    endless = build_c_kernel(tmp_path, TASK.symbol, "for (volatile int i = 0;; ) i++;")
    with Bench(replace(LOCAL, session_timeout_seconds=3.0), timing=BRIEF) as bench:
        outcome, _ = bench.run(TASK, endless, None)
        assert outcome.failure == TIMEOUT
        assert bench.run(TASK, library, None)[0].failure is None


def test_a_kernel_that_reports_an_error(tmp_path: Path) -> None:
    refusing = build_c_kernel(tmp_path, "another_name", "return 0;")
    with _bench() as bench:
        outcome, _ = bench.run(TASK, refusing, None)
    assert outcome.failure == RUN_FAILED


def test_a_device_that_stays_away_is_an_error_after_longer_and_longer_waits() -> None:
    waits: list[float] = []
    device = Device("phone", "llvm", tracker="127.0.0.1:1", key="none")
    bench = Bench(device, back_off_seconds=(0.0, 1.0, 4.0), sleep=waits.append)
    with pytest.raises(DeviceLostError, match=r"3 attempts.*--resume"):
        bench.session()
    assert waits == [1.0, 4.0]


def test_a_hot_device_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    degrees = iter([90.0, 80.0, 60.0])

    class Hot:
        def temperature(self) -> float:
            return next(degrees)

    waits: list[float] = []
    bench = Bench(LOCAL, sleep=waits.append)
    bench._cool_down(Hot())  # type: ignore[arg-type]
    assert len(waits) == 2
    assert bench.temperature == 60.0


def test_outputs_are_marked_before_each_candidate(library: Path) -> None:
    with _bench() as bench:
        _, outputs = bench.run(TASK, library, None)
        arrays = bench.arguments(bench.session(), TASK)
        assert outputs is not None
        assert not np.isclose(arrays[TASK.outputs[0]].numpy(), outputs[0]).any()
