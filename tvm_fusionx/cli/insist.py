"""A second Ctrl-C, where the first one has to wait for compiled code, ends the command at once.

Python acts on a signal between two of its own steps. LLVM makes the code of a whole model in one
call, which takes seconds for a large one, and cannot be told to stop.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator

from tvm_fusionx.output_file import remove_unfinished

# What a shell reports for a program ended by Ctrl-C: 128 + SIGINT.
EXIT_INTERRUPTED = 130

# Written to the watcher when there is nothing more to watch: no signal has this number.
ENDED = 0

# Nearly every interrupt ends a command before.
PATIENCE_SECONDS = 1.0

INTERRUPTED = "fusionx: interrupted"
WAITING = "fusionx: stopping when this step ends; Ctrl-C again stops at once"


@contextlib.contextmanager
def insistent() -> Iterator[threading.Event]:
    """Watch for Ctrl-C in this scope, from a thread of its own.

    Only the main thread gets signals: in another one the scope changes nothing.

    Yields
    ------
    threading.Event
        Set once Ctrl-C came: what is imported then may make another error of it.
    """
    came = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    watcher = threading.Thread(target=_watch, args=(reader, came), daemon=True)
    watcher.start()
    try:
        yield came
    finally:
        signal.set_wakeup_fd(before)
        os.write(writer, bytes([ENDED]))
        watcher.join()
        os.close(writer)
        os.close(reader)


def _watch(reader: int, came: threading.Event) -> None:
    """Read the numbers of signals, which the system writes as they come."""
    if not _is_interrupted(reader):
        return
    came.set()
    # A terminal and a script may both send it, at nearly the same time: that is one.
    until = time.monotonic() + PATIENCE_SECONDS
    while select.select([reader], [], [], max(0.0, until - time.monotonic()))[0]:
        if not _is_interrupted(reader):
            return
    print(WAITING, file=sys.stderr, flush=True)
    if _is_interrupted(reader):
        _end()


def _is_interrupted(reader: int) -> bool:
    """Wait for an interrupt, and tell whether it came before the end of the scope."""
    while (number := os.read(reader, 1)[0]) not in (signal.SIGINT, ENDED):
        pass
    return number != ENDED


def _end() -> None:
    """Remove what is temporary and end the process, whatever its main thread does."""
    remove_unfinished()
    # Python's and TVM's temporary folders are removed by these.
    atexit._run_exitfuncs()
    print(INTERRUPTED, file=sys.stderr, flush=True)
    os._exit(EXIT_INTERRUPTED)
