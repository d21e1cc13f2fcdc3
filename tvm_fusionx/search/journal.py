"""The journal of a search: every trial, written down before it is trained and after.

A trial is a candidate trained for a share of the whole training. What ended well is never trained
again, whatever happens to the process; what was cut short is tried again, with the reason kept, and
given up after :data:`MOST_ATTEMPTS` failures of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tvm_fusionx.records.line_file import LineFile, OpenFile, Words, append_unbuffered
from tvm_fusionx.search.space import Candidate, candidate_key

FORMAT_VERSION = 1
HEADER = "fusionx_search_journal"
FILE = "journal.jsonl"
WORDS = Words(
    thing="search journal",
    user="one process that searches",
    other="Give another folder, or search the space, with the training, that it is of.",
    full="Make room or give another folder; all trials before are kept: --resume.",
)
MOST_ATTEMPTS = 3
CUT_SHORT = "the search ended"
# More often than a trial fails by itself, a search is ended by who watches it.
MOST_CUT_SHORT = 10
WHOLE = 1.0

TrialKey = tuple[str, float]
"""Key of the candidate, and the share of the training."""


@dataclass(frozen=True)
class Result:
    """What came of a trial.

    Attributes
    ----------
    candidate
        What was trained.
    share
        How much of the whole training it got.
    accuracy
        What the training said; NaN where it failed or was never trained.
    latency_us
        Microseconds; infinite where it cannot be built.
    seconds
        What the training took.
    failure
        Why there is no accuracy; empty otherwise.
    details
        What else the training said.
    """

    candidate: Candidate
    share: float = WHOLE
    accuracy: float = math.nan
    latency_us: float = math.inf
    seconds: float = 0.0
    failure: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> TrialKey:
        """Return what tells the trial from others."""
        return candidate_key(self.candidate), self.share


@dataclass
class _State:
    results: dict[TrialKey, Result] = field(default_factory=dict)
    running: dict[int, TrialKey] = field(default_factory=dict)
    reasons: dict[TrialKey, list[str]] = field(default_factory=dict)
    latencies: dict[str, float] = field(default_factory=dict)
    launch_us: float | None = None
    trials: int = 0


class SearchJournal:
    """The trials of one search, in a folder; open it in one process at a time.

    Parameters
    ----------
    folder
        Where it lies; made where there is none.
    space, training
        Digests of what is searched and of what trains; a journal of others is refused.
    open_file
        Opens the file for appending; for tests.

    Raises
    ------
    RecordError
        The file is damaged or of another search, or another process has it open.
    OutputFileError
        It cannot be written.
    """

    def __init__(
        self,
        folder: str | Path,
        space: str,
        training: str,
        open_file: OpenFile = append_unbuffered,
    ) -> None:
        self.folder = Path(folder)
        header = {HEADER: FORMAT_VERSION, "space": space, "training": training}
        self._state = _State()
        self._lines = LineFile(self.folder / FILE, header, WORDS, open_file)
        try:
            self._lines.read(self._believe)
        except BaseException:
            self._lines.close()
            raise
        for number in list(self._state.running):
            self.fail(number, CUT_SHORT)

    def __enter__(self) -> SearchJournal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; another process may open it then."""
        self._lines.close()

    # Writing.

    def start(self, candidate: Mapping[str, Any], share: float = WHOLE) -> int:
        """Write down that a trial begins, and return its number."""
        number = self._state.trials + 1
        self._write(
            {"event": "start", "trial": number, "candidate": dict(candidate), "share": share}
        )
        return number

    def end(self, number: int, result: Result) -> None:
        """Write down what came of a trial that began."""
        self._write({"event": "end", "trial": number, **_row(result)})

    def add(self, result: Result) -> None:
        """Write down a result that took no training: a candidate that is too slow."""
        self._write({"event": "add", **_row(result)})

    def keep_latency(self, candidate: Mapping[str, Any], latency_us: float) -> None:
        """Write down the latency of a candidate that was asked for before it was proposed."""
        told = None if math.isinf(latency_us) else latency_us
        self._write({"event": "latency", "candidate": dict(candidate), "latency_us": told})

    def keep_launch(self, launch_us: float) -> None:
        """Write down what a launch adds, in microseconds: one number for all latencies."""
        self._write({"event": "launch", "launch_us": launch_us})

    def fail(self, number: int, reason: str) -> None:
        """Write down that a trial was cut short: it is tried again, unless it was so too often."""
        self._write({"event": "fail", "trial": number, "reason": reason})

    # Asking.

    def result(self, candidate: Mapping[str, Any], share: float = WHOLE) -> Result | None:
        """Return what came of a trial; None where it is to be trained."""
        key = candidate_key(candidate), share
        known = self._state.results.get(key)
        if known is not None:
            return known
        reasons = self._state.reasons.get(key, [])
        own = [reason for reason in reasons if reason != CUT_SHORT]
        if len(own) < MOST_ATTEMPTS and len(reasons) - len(own) < MOST_CUT_SHORT:
            return None
        return Result(dict(candidate), share, failure=f"{len(reasons)} times: {reasons[-1]}")

    def latency_us(self, candidate: Mapping[str, Any]) -> float | None:
        """Return the latency that was told of a candidate before; None where it was not."""
        return self._state.latencies.get(candidate_key(candidate))

    @property
    def launch_us(self) -> float | None:
        """Return what a launch added when the search began; None where that was not kept."""
        return self._state.launch_us

    def results(self) -> list[Result]:
        """Return what came of all trials, in the order in which they ended."""
        return list(self._state.results.values())

    def reasons(self, candidate: Mapping[str, Any], share: float = WHOLE) -> list[str]:
        """Return why trials of a candidate were cut short."""
        return list(self._state.reasons.get((candidate_key(candidate), share), []))

    @property
    def trained_seconds(self) -> float:
        """Return what all trainings took that ended well."""
        return sum(result.seconds for result in self._state.results.values())

    def _write(self, row: Mapping[str, Any]) -> None:
        self._lines.append(row)
        self._believe(dict(row))

    def _believe(self, row: dict[str, Any]) -> None:
        state, event = self._state, row["event"]
        if event == "start":
            number = int(row["trial"])
            state.trials = max(state.trials, number)
            state.running[number] = candidate_key(row["candidate"]), float(row["share"])
        elif event == "fail":
            key = state.running.pop(int(row["trial"]))
            state.reasons.setdefault(key, []).append(str(row["reason"]))
        elif event in ("end", "add"):
            result = _result(row)
            if event == "end":
                key = state.running.pop(int(row["trial"]))
                if key != result.key:
                    raise ValueError("a trial ended as another")
            state.results[result.key] = result
            state.latencies[result.key[0]] = result.latency_us
        elif event == "latency":
            told = row["latency_us"]
            key_of_it = candidate_key(row["candidate"])
            state.latencies[key_of_it] = math.inf if told is None else float(told)
        elif event == "launch":
            state.launch_us = float(row["launch_us"])
        else:
            raise ValueError(f"event {event!r}")


def _row(result: Result) -> dict[str, Any]:
    return {
        "candidate": result.candidate,
        "share": result.share,
        # JSON has neither of the two.
        "accuracy": None if math.isnan(result.accuracy) else result.accuracy,
        "latency_us": None if math.isinf(result.latency_us) else result.latency_us,
        "seconds": result.seconds,
        "failure": result.failure,
        "details": dict(result.details),
    }


def _result(row: Mapping[str, Any]) -> Result:
    accuracy, latency = row["accuracy"], row["latency_us"]
    return Result(
        row["candidate"],
        float(row["share"]),
        math.nan if accuracy is None else float(accuracy),
        math.inf if latency is None else float(latency),
        float(row["seconds"]),
        str(row["failure"]),
        dict(row["details"]),
    )
