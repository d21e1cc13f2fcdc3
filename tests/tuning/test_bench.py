"""Candidates on the real local device: right, wrong, crashing, hanging, and a device that goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tuning.small_tasks import LOCAL, dense_task
from tests.tuning.terrible_kernels import build_c_kernel
from tvm_fusionx.devices import Device
from tvm_fusionx.errors import DeviceLostError
from tvm_fusionx.tuning import bench as bench_module
from tvm_fusionx.tuning.bench import MOST_COOL_DOWNS, RUN_FAILED, WRONG, Bench, Timing
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


class _Phone:
    """Stands for sessions on a phone: each says the next of what it is asked."""

    def __init__(
        self,
        degrees: Sequence[float | None] = (None,),
        names: Sequence[str] = ("one",),
        losses: int = 0,
    ) -> None:
        self.degrees, self.names = list(degrees), list(names)
        self.losses = losses
        self.lasted: list[float] = []
        self.is_open = False

    @contextmanager
    def open(self, device: Device) -> Iterator[_Phone]:
        assert not self.is_open, "a phone has one session at a time"
        self.lasted.append(device.session_timeout_seconds)
        self.is_open = True
        yield self
        self.is_open = False

    def is_alive(self) -> bool:
        return self.is_open

    def keep_threads_apart(self) -> bool:
        self.losses -= 1
        if self.losses >= 0:
            raise DeviceLostError("phone", expected="an answer", found="none", next_step="x.")
        return False

    def temperature(self) -> float | None:
        return self.degrees.pop(0) if len(self.degrees) > 1 else self.degrees[0]

    def facts(self) -> dict[str, Any]:
        name = self.names.pop(0) if len(self.names) > 1 else self.names[0]
        return {"cpu": name, "cores": 8} if name else {}


def _bench_of(phone: _Phone, monkeypatch: pytest.MonkeyPatch, **options: Any) -> Bench:
    monkeypatch.setattr(bench_module, "open_session", phone.open)
    return Bench(LOCAL, **{"sleep": lambda _: None, **options})


def test_a_hot_device_is_waited_for_without_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    phone = _Phone(degrees=[90.0, 80.0, 60.0])
    waits: list[bool] = []
    bench = _bench_of(phone, monkeypatch, sleep=lambda _: waits.append(phone.is_open))
    bench.session()
    assert waits == [False, False]
    assert len(phone.lasted) == 3
    assert bench.temperature == 60.0
    assert phone.is_open


def test_a_device_that_stays_hot_is_used_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    phone = _Phone(degrees=[90.0])
    with _bench_of(phone, monkeypatch) as bench:
        assert bench.session() is phone
    assert len(phone.lasted) == 1 + MOST_COOL_DOWNS


def test_a_device_lost_while_its_session_begins_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phone = _Phone(losses=2)
    with _bench_of(phone, monkeypatch) as bench:
        assert bench.session() is phone
    assert len(phone.lasted) == 3


@pytest.mark.parametrize("other", ["another", ""])
def test_another_kind_of_device_under_the_same_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    phone = _Phone(names=["one", "one", other])
    bench = _bench_of(phone, monkeypatch)
    for _ in range(2):
        bench.session()
        bench.drop()
    with pytest.raises(DeviceLostError, match=r"one, 8 cores; found .*a key of its own"):
        bench.session()
    assert not phone.is_open


def test_a_device_must_be_what_it_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = _bench_of(_Phone(), monkeypatch, processor="another, 8 cores")
    with pytest.raises(DeviceLostError, match="another, 8 cores; found one, 8 cores"):
        bench.session()


def test_a_session_lasts_as_long_as_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    phone = _Phone()
    with _bench_of(phone, monkeypatch) as bench:
        for lasting in (None, None, 600.0, 600.0, None):
            bench.session(lasting)
    own = LOCAL.session_timeout_seconds
    assert phone.lasted == [own, 600.0, own]


def test_outputs_are_marked_before_each_candidate(library: Path) -> None:
    with _bench() as bench:
        _, outputs = bench.run(TASK, library, None)
        arrays = bench.arguments(bench.session(), TASK)
        assert outputs is not None
        assert not np.isclose(arrays[TASK.outputs[0]].numpy(), outputs[0]).any()
