"""Ctrl-C during a build: ``KeyboardInterrupt``, wherever in TVM the signal finds the process.

TVM calls Python back through ctypes, and carries only an ``Exception`` over its own frames. A
``KeyboardInterrupt`` is none: ctypes prints it, and C++ goes on with nothing in the place of the
answer. And because Python looks for signals when a function starts, one that comes while C++ works
is nearly always raised in the first step of such a callback, or in the ``__del__`` of one of TVM's
objects, where every exception is lost. So, in a scope of :func:`interruptible`,

- a signal that comes where an exception would be lost, or would leave a temporary folder behind,
  is raised at the next call or return that is elsewhere;
- one that comes while the exception of the one before is on its way out is the same wish: raised in
  what clears up, it would end that in the middle, or TVM's own frames;
- TVM is made to carry every exception, from the first Ctrl-C on.

This module does not import TVM: a command is interruptible before it is loaded.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import importlib.machinery
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

# TVM's calls between Python and C++; the module exists where TVM uses ctypes, as its wheels do.
FOREIGN_CALLS = "tvm._ffi._ctypes.packed_func"

# Every exception in a finaliser is printed and forgotten.
FINALISER = "__del__"

# What must end when it has begun: a folder made and not yet known to anybody, or removed in part;
# and a module in C, which prints what the imports of its own raise.
UNDIVIDED: frozenset[CodeType] = frozenset(
    function.__code__
    for function in (
        tempfile.mkdtemp,
        tempfile.TemporaryDirectory.__init__,
        tempfile.TemporaryDirectory.__exit__,
        tempfile.TemporaryDirectory.cleanup,
        tempfile.TemporaryDirectory._cleanup.__func__,  # type: ignore[attr-defined]
        shutil.rmtree,
        importlib.machinery.ExtensionFileLoader.create_module,
        importlib.machinery.ExtensionFileLoader.exec_module,
    )
    if hasattr(function, "__code__")
)


# An exception has left by then what it was raised in.
ON_ITS_WAY_SECONDS = 2.0


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Let Ctrl-C end what runs in this scope by ``KeyboardInterrupt``, also out of TVM's callbacks.

    Scopes nest. Only the main thread gets signals: in another one, and where Ctrl-C is ignored or
    left to the system, the scope changes nothing.
    """
    before = signal.getsignal(signal.SIGINT)
    if (
        threading.current_thread() is not threading.main_thread()
        or not callable(before)
        or isinstance(before, _Handler)
    ):
        yield
        return
    handler = _Handler(before)
    signal.signal(signal.SIGINT, handler)
    unraisable = sys.unraisablehook
    sys.unraisablehook = functools.partial(handler.see_lost, unraisable)
    try:
        yield
    finally:
        sys.unraisablehook = unraisable
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)
        handler.deliver_now()


class _Handler:
    """Passes Ctrl-C on to the handler before it, where what that raises arrives."""

    def __init__(self, before: Callable[[int, FrameType | None], Any]) -> None:
        self._before = before
        self._waits = False
        self._profiler: Any = None
        self._until: FrameType | None = None
        self._raised_at = -ON_ITS_WAY_SECONDS

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Act on the signal, now or as soon as it is of use."""
        if time.monotonic() - self._raised_at < ON_ITS_WAY_SECONDS:
            return
        carry_every_exception()
        if _lost_in(frame):
            self._wait()
        else:
            self._raise(frame)

    def see_lost(self, report: Callable[[Any], Any], lost: Any) -> None:
        """Raise again what Python could only print: ``sys.unraisablehook`` in the scope."""
        if lost.exc_type is KeyboardInterrupt:
            self._wait()
        else:
            report(lost)

    def deliver_now(self) -> None:
        """Act on a signal that still waits."""
        if self._waits:
            self._raise(sys._getframe())

    def _raise(self, frame: FrameType | None) -> None:
        self._forget()
        self._raised_at = time.monotonic()
        self._before(signal.SIGINT, frame)

    def _wait(self) -> None:
        if not self._waits:
            self._waits = True
            self._profiler = sys.getprofile()
            sys.setprofile(self._look)

    def _forget(self) -> None:
        if self._waits:
            self._waits = False
            self._until = None
            sys.setprofile(self._profiler)

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        """Raise at the first call or return that is not lost: a profiler sees each of them."""
        if self._until is not None:
            # Each call of a long import would walk the whole stack for the same answer.
            if event == "return" and frame is self._until:
                self._until = None
            return
        lost = _lost_in(frame)
        if lost is None:
            self._raise(frame)
        elif lost.f_code is not _callbacks()[0] and (event, frame) != ("return", lost):
            # One that is returning now does not return again.
            self._until = lost


def _lost_in(frame: FrameType | None) -> FrameType | None:
    """Return the frame where an exception raised in `frame` would be lost, or do harm.

    A callback's is lost in some of its lines, every other one's until it returns.
    """
    callback, free, line = _callbacks()
    reporter = _Handler.see_lost.__code__
    while frame is not None:
        code = frame.f_code
        if code in UNDIVIDED or code in (free, reporter) or code.co_name == FINALISER:
            return frame
        if code is callback and frame.f_lineno != line:
            return frame
        frame = frame.f_back
    return None


def _callbacks() -> tuple[CodeType | None, CodeType | None, int]:
    """Return the code of TVM's callbacks, of those that free, and the line that handles errors."""
    calls = sys.modules.get(FOREIGN_CALLS)
    if calls is None or not hasattr(calls, "convert_to_tvm_func"):
        return None, None, 0
    return _read_callbacks(calls)


@functools.cache
def _read_callbacks(calls: Any) -> tuple[CodeType, CodeType, int]:
    (code,) = (
        constant
        for constant in calls.convert_to_tvm_func.__code__.co_consts
        if isinstance(constant, CodeType) and constant.co_name == "cfun"
    )
    place = next(
        step.offset for step in dis.get_instructions(code) if step.argval == "local_pyfunc"
    )
    line = next(line for start, end, line in code.co_lines() if start <= place < end)
    return code, calls._ctypes_free_resource.__code__, line or 0


def carry_every_exception() -> None:
    """Let TVM carry every exception of a callback to its caller, not only an ``Exception``.

    All callbacks look that name up in their module. Idempotent; stays, as a callback that is just
    being left still needs it.
    """
    calls = sys.modules.get(FOREIGN_CALLS)
    if calls is not None:
        calls.Exception = BaseException  # type: ignore[attr-defined]
