"""A model that several people use: one thread runs it, the others wait in a line.

A model has one cache and its kernels take all cores, so two at once would only slow each other.
Everything of TVM that a desk does, compiling too, happens in its own thread.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from tvm_fusionx.errors import FusionXError

logger = logging.getLogger(__name__)

Model = TypeVar("Model")

# Jobs that wait behind the one that runs. Each holds a thread of the server, which has more.
MOST_WAITING = 4

# A stream says so often that it is still there: a write is how the server notices who went away.
HEARTBEAT_SECONDS = 1.0

# Only one desk compiles at a time: the scope of lowering belongs to the process.
_COMPILING = threading.RLock()

Event = dict[str, Any]

# The last event of each job is one of these.
END, ERROR, STOPPED = "end", "error", "stopped"
LAST = (END, ERROR, STOPPED)


@contextlib.contextmanager
def compiling(say: Callable[[str], None]) -> Iterator[None]:
    """Compile alone; tell who waits for it what is waited for."""
    if not _COMPILING.acquire(blocking=False):
        say("waiting for another model, which is being compiled")
        _COMPILING.acquire()
    try:
        yield
    finally:
        _COMPILING.release()


class Job:
    """What one person asked for: events that come, and a way to stop it."""

    def __init__(self) -> None:
        self.name = secrets.token_urlsafe(16)
        """Not to be guessed: who knows it may stop the job."""
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._before = 0

    @property
    def is_stopped(self) -> bool:
        """Whether someone said stop."""
        return self._stopped.is_set()

    def is_called(self, name: str) -> bool:
        """Tell whether this is its name, in a time that tells nothing of it."""
        return secrets.compare_digest(self.name.encode(), name.encode())

    def stop(self) -> None:
        """Have it end at the next token."""
        self._stopped.set()

    def tell(self, event: str, **fields: Any) -> None:
        """Add an event."""
        self._events.put({"event": event, **fields})

    def tell_place(self, before: int) -> None:
        """Tell how many are before it, where that is news."""
        if before != self._before:
            self._before = before
            self.tell("waiting", before=before)

    def events(self, heartbeat: float = HEARTBEAT_SECONDS) -> Iterator[Event | None]:
        """Give events as they come, and None where none came for some seconds.

        A reader that goes away stops the job.
        """
        try:
            while True:
                try:
                    event = self._events.get(timeout=heartbeat)
                except queue.Empty:
                    yield None
                    continue
                yield event
                if event["event"] in LAST:
                    return
        finally:
            self.stop()


Work = Callable[[Model, Job], Event]


class Desk(Generic[Model]):
    """Runs jobs one after the other, in the order in which they came.

    Parameters
    ----------
    make
        Makes the model when the first job needs it; told with what to say what is being done.
    """

    def __init__(self, make: Callable[[Callable[[str], None]], Model]) -> None:
        self._make = make
        self._model: Model | None = None
        self._waiting: deque[tuple[Job, Work[Model]]] = deque()
        self._running: Job | None = None
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._serve, name="desk", daemon=True)
        self._thread.start()

    def submit(self, work: Work[Model]) -> Job | None:
        """Put work into the line; return None where the line is full, or the desk closed.

        Parameters
        ----------
        work
            Called with the model and its job; what it returns are fields of the last event.
        """
        job = Job()
        job.tell("begin", job=job.name)
        with self._changed:
            waiting = sum(not each.is_stopped for each, _ in self._waiting)
            if self._is_closed or waiting >= MOST_WAITING:
                return None
            self._waiting.append((job, work))
            self._tell_places()
            self._changed.notify()
        return job

    def stop(self, name: str) -> bool:
        """Stop the job of that name; return whether there is one."""
        with self._changed:
            for place, (job, _) in enumerate(self._waiting):
                if job.is_called(name):
                    del self._waiting[place]
                    job.stop()
                    job.tell(STOPPED)
                    self._tell_places()
                    return True
            if self._running is not None and self._running.is_called(name):
                self._running.stop()
                return True
        return False

    def close(self, seconds: float) -> bool:
        """Stop all jobs, and take none any more; return whether the last ended in time."""
        with self._changed:
            self._is_closed = True
            for job, _ in self._waiting:
                job.stop()
                job.tell(STOPPED)
            self._waiting.clear()
            if self._running is not None:
                self._running.stop()
            self._changed.notify()
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def say(self, stage: str) -> None:
        """Tell the job that runs what is being done."""
        if self._running is not None:
            self._running.tell("stage", text=stage)

    def _tell_places(self) -> None:
        before = int(self._running is not None)
        for job, _ in self._waiting:
            if before and not job.is_stopped:
                job.tell_place(before)
            before += not job.is_stopped

    def _serve(self) -> None:
        while True:
            with self._changed:
                self._running = None
                self._tell_places()
                while not self._waiting:
                    if self._is_closed:
                        return
                    self._changed.wait()
                job, work = self._waiting.popleft()
                self._running = job
            self._run(job, work)

    def _run(self, job: Job, work: Work[Model]) -> None:
        if job.is_stopped:
            job.tell(STOPPED)
            return
        try:
            if self._model is None:
                with compiling(self.say):
                    self._model = self._make(self.say)
            fields = work(self._model, job)
            job.tell(STOPPED if job.is_stopped else END, **fields)
        except FusionXError as error:
            job.tell(ERROR, text=str(error))
        except Exception:
            logger.exception("a job of the page failed")
            job.tell(ERROR, text="The server failed at this; its log says why. Try again.")
