"""A line that tells how tuning goes: best so far, failures, and when it ends."""

from __future__ import annotations

import math
from types import TracebackType
from typing import Any

from tqdm import tqdm

from tvm_fusionx.tuning.allocation import shares
from tvm_fusionx.tuning.session import Session

GIGA = 1e9
BAR = "{desc} {percentage:3.0f}%|{bar:12}| {n:.0f}/{total:.0f}{unit} {elapsed}<{remaining}{postfix}"


class TuningProgress:
    """Draws the progress on standard error, on terminals only; a scope.

    Parameters
    ----------
    subject
        What is tuned.
    trials, budget_seconds
        The budget; time counts where there is one.
    disable
        Whether to draw nothing; None for on a terminal only.
    """

    def __init__(
        self,
        subject: str,
        trials: float | None,
        budget_seconds: float | None,
        disable: bool | None = None,
    ) -> None:
        self._subject = subject
        self._in_seconds = budget_seconds is not None
        total = budget_seconds if budget_seconds is not None else trials
        self._bar = tqdm(
            desc=subject,
            total=total,
            unit=" s" if self._in_seconds else " trials",
            bar_format=BAR,
            leave=False,
            disable=disable,
        )

    def __enter__(self) -> TuningProgress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.close()

    def __call__(self, stage: str, session: Session | None) -> None:
        """Show that `stage` begins, or how far the session is."""
        if stage:
            self._bar.set_description_str(f"{self._subject}: {stage}", refresh=False)
        if session is not None:
            self._bar.n = session.spent_seconds if self._in_seconds else session.trials
            self._bar.set_postfix_str(standing(session), refresh=False)
        self._bar.refresh()


def standing(session: Session) -> str:
    """Return the best so far and the failures, in a few words."""
    rows: list[Any] = [
        each for each in session.progresses.values() if math.isfinite(each.default_seconds)
    ]
    before = sum(each.task.count * each.default_seconds for each in rows)
    now = sum(each.task.count * each.now for each in rows)
    parts = [f"blocks {before / now:.2f}x" if now else "blocks not timed"]
    part = shares(rows)
    heaviest = max(rows, key=lambda each: part[each.task.key], default=None)
    if heaviest is not None and heaviest.task.flops:
        speed = heaviest.task.flops / heaviest.now
        parts.append(f"heaviest {speed / GIGA:.0f} GFLOP/s")
        if session.peak is not None:
            parts.append(f"{speed / session.peak.flops_per_second:.0%} of peak")
    parts += [f"{count} {kind}" for kind, count in session.failures.most_common()]
    return ", ".join(parts)
