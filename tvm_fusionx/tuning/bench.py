"""Runs candidates on one device, and outlives whatever they do to it.

A session on the device serves many trials. One that a candidate breaks is opened again, with
longer and longer waits between attempts; a device that stays away ends the tuning with everything
written down.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import tvm

from tvm_fusionx._tvm.arrays import numpy_of
from tvm_fusionx.devices import Device, DeviceSession, open_session
from tvm_fusionx.errors import DeviceError, DeviceLostError
from tvm_fusionx.tuning.arguments import arguments_of, why_wrong
from tvm_fusionx.tuning.build_candidates import last_line
from tvm_fusionx.tuning.outcome import DEVICE_LOST, TIMEOUT, Outcome
from tvm_fusionx.tuning.task import Task

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

WRONG = "wrong result"
RUN_FAILED = "run"

# Waits between attempts to reach a device that went away: a phone boots in about a minute.
BACK_OFF_SECONDS = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0)

# A trial may begin while this share of its session's time is left.
LEAST_TIME_LEFT = 0.5

# Hotter than this, processors of phones slow down.
HOT_CELSIUS = 75.0
COOL_DOWN_SECONDS = 5.0
MOST_COOL_DOWNS = 12


@dataclass(frozen=True)
class Timing:
    """How long a kernel is measured: `repeats` times, each filling `milliseconds` at least."""

    repeats: int = 5
    milliseconds: int = 5


@dataclass
class Bench:
    """One device and the session that is open on it; a scope.

    Parameters
    ----------
    device
        What runs the candidates.
    timing
        How long each is measured.
    back_off_seconds
        Waits before each attempt to reach a device that went away.
    sleep
        Waits; for tests.
    processor
        What the device says that it is; the first session tells where it is not given.
    """

    device: Device
    timing: Timing = field(default_factory=Timing)
    back_off_seconds: Sequence[float] = BACK_OFF_SECONDS
    sleep: Callable[[float], None] = time.sleep
    processor: str | None = None

    def __post_init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._session: DeviceSession | None = None
        self._opened = 0.0
        self._lasts = 0.0
        self._sent: tuple[tuple[str, dict[int, str]], list[Any]] | None = None
        self.temperature: float | None = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *exception: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Close the session, if one is open."""
        self._session, self._sent = None, None
        stack, self._stack = self._stack, contextlib.ExitStack()
        # A scope whose device is gone may fail to close: there is nothing left to save in it.
        with contextlib.suppress(DeviceError, tvm.TVMError, OSError):
            stack.close()

    def call(self, function: Callable[..., Answer], *arguments: Any) -> Answer:
        """Return what a function says of this bench and `arguments`, run where the device hangs.

        What :class:`tvm_fusionx.tuning.farm_bench.FarmBench` sends elsewhere goes through here:
        functions of modules, and arguments that can be sent, files as paths among them.
        """
        return function(self, *arguments)

    def expect(self) -> None:
        """Raise DeviceLostError where the device is not there, and stays away."""
        self.session()

    def session(self, lasting: float | None = None) -> DeviceSession:
        """Return an open session with time left, a new one where need be.

        Parameters
        ----------
        lasting
            Seconds that it lasts, where not the device's own.

        Raises
        ------
        DeviceLostError
            The device stays away, or one with another processor is in its place.
        """
        lasts = lasting or self.device.session_timeout_seconds
        has_time = (
            self._lasts == lasts and time.monotonic() - self._opened < lasts * LEAST_TIME_LEFT
        )
        if self._session is not None and has_time and self._session.is_alive():
            return self._session
        session = self._reach(lasts)
        for _ in range(MOST_COOL_DOWNS):
            # Devices that do not tell are taken for cool.
            if self.temperature is None or self.temperature < HOT_CELSIUS:
                break
            logger.info("device %s has %.0f degrees: waiting", self.device.name, self.temperature)
            # Waiting would use up the session's time.
            self.drop()
            self.sleep(COOL_DOWN_SECONDS)
            session = self._reach(lasts)
        return session

    def _reach(self, lasts: float) -> DeviceSession:
        """Open a session; where the device does not answer, try again after longer waits."""
        self.drop()
        problem: Exception | None = None
        for wait in self.back_off_seconds:
            if problem is not None:
                logger.warning("%s; trying again in %g s", problem, wait)
                self.sleep(wait)
            try:
                device = replace(self.device, session_timeout_seconds=lasts)
                session = self._stack.enter_context(open_session(device))
                self._opened = time.monotonic()
                session.keep_threads_apart()
                self.temperature = session.temperature()
                processor = _processor(session.facts())
            except (DeviceError, tvm.TVMError, OSError) as error:
                self.drop()
                problem = error
                continue
            self._check_processor(processor)
            self._session, self._lasts = session, lasts
            return session
        raise DeviceLostError(
            f"device {self.device.name}",
            expected=f"an answer within {sum(self.back_off_seconds):g} s",
            found=f"none in {len(self.back_off_seconds)} attempts ({problem})",
            next_step="All trials so far are kept. Bring the device back (`fusionx doctor "
            f"--device {self.device.name}`), then tune again with --resume.",
        ) from problem

    def _check_processor(self, found: str) -> None:
        """Refuse another kind of device under the same key: its times cannot be compared."""
        if self.processor is None:
            self.processor = found
        if self.processor != found:
            self.drop()
            raise DeviceLostError(
                f"device {self.device.name}, key {self.device.key}",
                expected=f"the processor that was tuned first: {self.processor}",
                found=found,
                next_step="Give each kind of device a key of its own, then tune again with "
                "--resume: all trials so far are kept.",
            )

    def run(
        self,
        task: Task,
        path: Path,
        reference: Sequence[np.ndarray] | None,
        images: Mapping[int, str] | None = None,
    ) -> tuple[Outcome, list[np.ndarray] | None]:
        """Run a built candidate, compare its outputs with `reference`, and time it.

        `images` names the scopes of the parameters that it takes as OpenCL images.

        Returns
        -------
        Outcome, list of numpy.ndarray or None
            What came of it, and the outputs where it ran.

        Raises
        ------
        DeviceLostError
            The device was not there before the trial began, and stays away.
        """
        session = self.session()
        try:
            module = session.load(path)
            function = module[task.symbol]
            arrays = self.arguments(session, task, images or {})
            function(*arrays)
            outputs = [numpy_of(arrays[position]) for position in task.outputs]
            wrong = None if reference is None else why_wrong(outputs, list(reference))
            if wrong is not None:
                return Outcome(failure=WRONG, detail=wrong), outputs
            timed = self.timer(session, module, task.symbol)(*arrays)
            return Outcome(seconds=tuple(map(float, timed.results))), outputs
        except DeviceLostError as error:
            return self._lost(error), None
        except (DeviceError, tvm.TVMError, OSError, AttributeError) as error:
            lost = session.lost_because(error)
            self.drop()
            if lost is not None:
                return self._lost(lost), None
            return Outcome(failure=RUN_FAILED, detail=last_line(error)), None

    def _lost(self, error: DeviceLostError) -> Outcome:
        age = time.monotonic() - self._opened
        kind = TIMEOUT if age >= self.device.session_timeout_seconds else DEVICE_LOST
        self.drop()
        return Outcome(failure=kind, detail=error.found)

    def arguments(
        self, session: DeviceSession, task: Task, images: Mapping[int, str] | None = None
    ) -> list[Any]:
        """Return the parameters on the device, outputs marked as not written."""
        scopes = dict(images or {})
        if self._sent is None or self._sent[0] != (task.key, scopes):
            context = session.context
            arrays = [
                tvm.nd.array(value, context, scopes.get(position))
                for position, value in enumerate(arguments_of(task))
            ]
            self._sent = (task.key, scopes), arrays
            return arrays
        arrays = self._sent[1]
        values = arguments_of(task)
        for position in task.outputs:
            arrays[position].copyfrom(values[position])
        return arrays

    def timer(self, session: DeviceSession, module: Any, name: str) -> Any:
        """Return TVM's timer of a function of a remote module; a first, untimed run warms up."""
        return module.time_evaluator(
            name,
            session.context,
            number=1,
            repeat=self.timing.repeats,
            min_repeat_ms=self.timing.milliseconds,
        )


def _processor(facts: Mapping[str, Any]) -> str:
    """Return what a device says of its processor."""
    if not facts:
        return "a server that does not tell"
    return f"{facts.get('cpu') or facts.get('arch')}, {facts.get('cores')} cores"
