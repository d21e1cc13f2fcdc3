"""Progress on standard error for what takes longer than two seconds."""

from __future__ import annotations

import threading
from types import TracebackType

from tqdm import tqdm

# Nothing is shown of work that is done before.
QUIET_SECONDS = 2

# The elapsed time is shown anew this often, also while one stage lasts.
REFRESH_SECONDS = 0.5


class Stages:
    """A line that names the stage being worked on and the time since the start.

    Used as a scope; call it with each stage's name. Shown only on a terminal.

    Parameters
    ----------
    subject
        What is worked on.
    """

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self._bar = tqdm(
            desc=subject,
            bar_format="{desc} {elapsed}",
            delay=QUIET_SECONDS,
            leave=False,
            disable=None,
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
        """Say that `stage` begins."""
        self._bar.set_description_str(f"{self._subject}: {stage}", refresh=False)

    def _refresh(self) -> None:
        while not self._ended.wait(REFRESH_SECONDS):
            # update(), unlike refresh(), keeps silent for the first seconds.
            self._bar.update()
