from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm

import tvm_fusionx as fx
from tests.tiny_models import TARGET, convolution
from tvm_fusionx._tvm import interrupts
from tvm_fusionx._tvm.interrupts import FOREIGN_CALLS, interruptible

# Where in a build, as a part of the time that it takes, Ctrl-C comes.
MOMENTS = [part / 8 for part in range(1, 8)]


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    calls = sys.modules[FOREIGN_CALLS]
    handler, hook = signal.getsignal(signal.SIGINT), sys.unraisablehook
    yield
    assert signal.getsignal(signal.SIGINT) is handler
    assert sys.unraisablehook is hook
    assert sys.getprofile() is None
    calls.__dict__.pop("Exception", None)


def _interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_callback_of_tvm_carries_it() -> None:
    def callback() -> None:
        _interrupt()
        pytest.fail("goes on")

    with pytest.raises(KeyboardInterrupt), interruptible():
        tvm.runtime.convert(callback)()


def test_so_does_a_callback_within_a_callback() -> None:
    inner = tvm.runtime.convert(_interrupt)
    seen = []

    def outer() -> None:
        try:
            inner()
        except KeyboardInterrupt:
            seen.append("inside")
            raise

    with pytest.raises(KeyboardInterrupt), interruptible():
        tvm.runtime.convert(outer)()
    assert seen == ["inside"]


def test_one_at_the_start_of_a_callback_is_raised_inside_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The callback's first step reads how many arguments there are.
    calls: Any = sys.modules[FOREIGN_CALLS]

    class Watched(type(calls.ctypes)):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            if name == "c_int" and sys._getframe(1).f_code.co_name == "cfun":
                monkeypatch.undo()
                _interrupt()
            return getattr(original, name)

    original = calls.ctypes
    went_on = []
    function = tvm.runtime.convert(lambda: went_on.append(True))

    def call() -> None:
        monkeypatch.setattr(calls, "ctypes", Watched("watched"))
        function()

    with pytest.raises(KeyboardInterrupt), interruptible():
        call()
    assert calls.ctypes is original
    assert went_on == []


def test_a_finaliser_ends_first() -> None:
    # What still waits is raised at the scope's end, in the place of a failure before it: so they
    # are written down.
    ended, went_on = [], []

    class Held:
        def __del__(self) -> None:
            _interrupt()
            ended.append(True)

    def drop() -> None:
        held = Held()
        del held
        len("")
        went_on.append(True)

    with pytest.raises(KeyboardInterrupt), interruptible():
        drop()
    assert (ended, went_on) == ([True], [])


def test_one_that_python_could_only_print_is_raised_again(
    capfd: pytest.CaptureFixture[str],
) -> None:
    class Held:
        pass

    went_on = []

    def drop() -> None:
        held = Held()
        watch = weakref.ref(held, lambda _: _interrupt())
        del held
        assert watch() is None
        went_on.append(True)

    with pytest.raises(KeyboardInterrupt), interruptible():
        drop()
    assert went_on == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("step", ["mkdir", "unlink"])
def test_a_temporary_folder_is_removed_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, step, _interrupted(getattr(os, step)))
    with (
        pytest.raises(KeyboardInterrupt),
        interruptible(),
        tempfile.TemporaryDirectory() as folder,
    ):
        (Path(folder) / "file").touch()
    # One that was not entered goes with its object.
    gc.collect()
    assert list(tmp_path.iterdir()) == []


def test_what_follows_a_temporary_folder_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "rmdir", _interrupted(os.rmdir))
    went_on = []

    def work() -> None:
        # One undivided function returns out of another, and nothing is called between.
        with tempfile.TemporaryDirectory():
            pass
        went_on.append(True)

    with pytest.raises(KeyboardInterrupt), interruptible():
        work()
    # At its end the scope raises what still waits.
    assert went_on == []
    assert list(tmp_path.iterdir()) == []


def _interrupted(function: Any) -> Any:
    def call(*arguments: Any, **named: Any) -> Any:
        if any(frame.f_code.co_filename.endswith(("tempfile.py", "shutil.py")) for frame in _up()):
            _interrupt()
        return function(*arguments, **named)

    return call


def _up() -> Iterator[Any]:
    frame = sys._getframe(2)
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]


def test_a_handler_of_ones_own_is_still_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with interruptible(), interruptible():
            tvm.runtime.convert(_interrupt)()
        assert seen == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("kind", [signal.SIG_IGN, signal.SIG_DFL])
def test_what_python_does_not_handle_stays(kind: signal.Handlers) -> None:
    before = signal.signal(signal.SIGINT, kind)
    try:
        with interruptible():
            assert signal.getsignal(signal.SIGINT) is kind
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_gets_no_signals() -> None:
    done = []

    def work() -> None:
        with interruptible():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_other_lost_exceptions_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))

        class Held:
            def __del__(self) -> None:
                raise KeyError

        with interruptible():
            held = Held()
            del held
    assert told == [KeyError]


@pytest.mark.slow
def test_a_build_is_interrupted_at_any_moment(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    mod, params = fx.from_onnx(convolution())
    started = time.perf_counter()
    fx.build(mod, TARGET, params)
    whole = time.perf_counter() - started

    def build_again(timer: threading.Timer) -> None:
        timer.start()
        while True:
            fx.build(mod, TARGET, params)

    for moment in MOMENTS:
        timer = threading.Timer(moment * whole, os.kill, (os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            build_again(timer)
        timer.join()
    assert capfd.readouterr().err == ""
    # Nothing of the builds that did not end stays behind in TVM.
    library = fx.build(mod, TARGET, params)
    assert library.get_lib() is not None


def test_a_second_one_does_not_end_what_clears_up() -> None:
    cleared = []

    def twice() -> None:
        try:
            _interrupt()
        finally:
            _interrupt()
            cleared.append("whole")

    with pytest.raises(KeyboardInterrupt), interruptible():
        twice()
    assert cleared == ["whole"]


def test_a_later_one_counts_where_the_first_was_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "ON_ITS_WAY_SECONDS", 0.0)
    caught = []
    with interruptible():
        for _ in range(2):
            try:
                _interrupt()
            except KeyboardInterrupt:
                caught.append(True)
    assert caught == [True, True]
