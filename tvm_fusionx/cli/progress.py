"""Progress on standard error for what takes longer than two seconds."""

from __future__ import annotations

import logging
import re
import shutil
import threading
import time
from types import TracebackType

from tqdm import tqdm

logger = logging.getLogger(__name__)

# Nothing is shown of work that is done before.
QUIET_SECONDS = 2

# The elapsed time is shown anew this often, also while one stage lasts.
REFRESH_SECONDS = 0.5

# A stage that counts, as in "scheduling kernel 12 of 45": the words around, done, in all.
COUNTED = re.compile(r"(?P<before>.*?)(?P<done>\d+) of (?P<total>\d+)(?P<after>.*)")

# Too few steps tell nothing about the others.
LEAST_STEPS = 3

# Columns for the time since the start, and for the time that is left.
TIMES_COLUMNS = 24


class Stages:
    """A line that names the stage being worked on, and the time since the start.

    Used as a scope; call it with each stage's name. Of a stage that counts its steps, ``N of M``,
    it also tells the seconds that are left. Shown only on a terminal, and not where ``-v`` logs it.

    Parameters
    ----------
    subject
        What is worked on.
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._counted = ""
        self._first = 0
        self._began = 0.0
        self._bar = tqdm(
            desc=subject,
            bar_format="{desc} {elapsed}{postfix}",
            delay=QUIET_SECONDS,
            leave=False,
            # Lines that are logged would run into this one.
            disable=True if logger.isEnabledFor(logging.INFO) else None,
        )
        self._ended = threading.Event()
        self._refresher = threading.Thread(target=self._refresh, daemon=True)

    def __enter__(self) -> Stages:
        self._refresher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ended.set()
        self._refresher.join()
        self._bar.close()

    def __call__(self, stage: str) -> None:
        """Say that `stage` begins, or how far it is."""
        level = logging.DEBUG if COUNTED.fullmatch(stage) else logging.INFO
        logger.log(level, "%s: %s", self._subject, stage)
        left = self._seconds_left(stage)
        columns = shutil.get_terminal_size().columns - TIMES_COLUMNS
        self._bar.set_description_str(f"{self._subject}: {stage}"[-columns:], refresh=False)
        self._bar.set_postfix_str("" if left is None else f"{left:.0f} s left", refresh=False)

    def _seconds_left(self, stage: str) -> float | None:
        """Return what the steps of a stage that are left will take, where that is known."""
        match = COUNTED.fullmatch(stage)
        now = time.monotonic()
        if match is None:
            self._counted = ""
            return None
        counted, done = match["before"] + match["after"], int(match["done"])
        if counted != self._counted:
            self._counted, self._first, self._began = counted, done, now
        steps = done - self._first
        if steps < LEAST_STEPS:
            return None
        return (now - self._began) / steps * (int(match["total"]) - done)

    def _refresh(self) -> None:
        while not self._ended.wait(REFRESH_SECONDS):
            # update(), unlike refresh(), keeps silent for the first seconds.
            self._bar.update()
