"""The journal of a device: every trial, written down before it runs and after.

One JSON object a line, each on the disk (fsync) before the work goes on. A process that is killed
leaves a trial that began and never ended: it is tried once more, and never again when that trial is
cut short too, or when it ran on this machine, which was started anew meanwhile. One that is left in
good order has nothing held against it. A last line without its end is taken off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tvm_fusionx.records.line_file import LineFile, OpenFile, Words, append_unbuffered
from tvm_fusionx.tuning.outcome import DEVICE_LOST, INTERRUPTED, Outcome
from tvm_fusionx.tuning.task import Choice, choice_key

FORMAT_VERSION = 1
HEADER = "fusionx_journal"
# Names what a session of a dry run says of itself.
DRY_RUN = "dry_run"

# A trial that was cut short this often is never tried again.
MOST_INTERRUPTIONS = 2

WORDS = Words(
    thing="tuning journal",
    user="one process that tunes",
    other="Give another folder, or tune for the device the journal is of.",
    full="Make room or give another folder; all trials before are kept: --resume.",
)

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

TrialKey = tuple[str, str, tuple[tuple[str, Any], ...]]
"""Block, template and choice."""


@dataclass
class _Trial:
    key: TrialKey
    session: int
    boot: str
    interruptions: int = 0


@dataclass
class _State:
    """What the lines so far say."""

    outcomes: dict[tuple[TrialKey, int], Outcome] = field(default_factory=dict)
    running: dict[int, _Trial] = field(default_factory=dict)
    interrupted: dict[TrialKey, _Trial] = field(default_factory=dict)
    sessions: dict[int, dict[str, Any]] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)
    trials: int = 0
    session: int = 0

    def keep(self, trial: _Trial, interruptions: int) -> None:
        """Keep a trial that did not end, with so many more interruptions than are known of it."""
        known = self.interrupted.get(trial.key)
        before = known.interruptions if known is not None else 0
        self.interrupted[trial.key] = replace(trial, interruptions=before + interruptions)

    def cut_short(self) -> None:
        """Count what runs as cut short: the process that ran it has ended."""
        for trial in self.running.values():
            self.keep(trial, interruptions=1)
        self.running.clear()


class Journal:
    """The trials on one device for one target; open it in one process at a time.

    Parameters
    ----------
    path
        Its file; made where there is none.
    target, device
        Whose trials these are; a journal of others is refused.
    open_file
        Opens the file for appending; for tests.
    is_local
        Whether the device is this machine: another boot then means that a trial may have ended it.

    Raises
    ------
    RecordError
        The file is damaged, of another target, device or version, or another process has it open.
    OutputFileError
        It cannot be written.
    """

    def __init__(
        self,
        path: str | Path,
        target: str,
        device: str,
        open_file: OpenFile = append_unbuffered,
        *,
        is_local: bool = True,
    ) -> None:
        self.path = Path(path)
        self.header = {HEADER: FORMAT_VERSION, "target": target, "device": device}
        self.boot = BOOT_ID.read_text().strip() if is_local and BOOT_ID.is_file() else ""
        self._state = _State()
        self._lines = LineFile(self.path, self.header, WORDS, open_file)
        try:
            self._lines.read(self._believe)
        except BaseException:
            self._lines.close()
            raise
        # Whatever still ran when the file was left never ended.
        self._state.cut_short()
        self._state.session = 0

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; another process may open it then."""
        self._lines.close()

    # Writing.

    def begin_session(self, description: Mapping[str, Any]) -> int:
        """Begin a new session and return its number."""
        number = max(self._state.sessions, default=0) + 1
        self._write({"event": "session", "session": number, "boot": self.boot, **description})
        return number

    def resume_session(self, description: Mapping[str, Any]) -> int | None:
        """Continue the newest session of that description that did not end; None if none is.

        Dry runs, which say so, have nothing to go on with.
        """
        for number in sorted(self._state.sessions, reverse=True):
            known = self._state.sessions[number]
            if number in self._state.finished or known.get(DRY_RUN):
                continue
            if all(known.get(name) == value for name, value in description.items()):
                self._write({"event": "resume", "session": number, "boot": self.boot})
                return number
        return None

    def end_session(self) -> None:
        """Say that the session did all of its work."""
        self._write({"event": "finish", "session": self._state.session})

    def add_task(self, key: str, description: Mapping[str, Any]) -> None:
        """Write down what a block is, once."""
        if key not in self._state.tasks:
            self._write({"event": "task", "task": key, **description})

    def start(self, task: str, template: str, choice: Choice) -> int:
        """Write down that a trial begins, and return its number."""
        number = self._state.trials + 1
        self._write(
            {
                "event": "start",
                "trial": number,
                "task": task,
                "template": template,
                "knobs": dict(choice),
            }
        )
        return number

    def abandon(self, trial: int) -> None:
        """Write down that a trial was left: it is tried again, with nothing held against it."""
        self._write({"event": "abandon", "trial": trial})

    def end(self, trial: int, outcome: Outcome, spent_seconds: float = 0.0) -> None:
        """Write down what came of a trial, and the session's time until then."""
        row: dict[str, Any] = {"event": "end", "trial": trial, "spent": round(spent_seconds, 3)}
        if outcome.failure is None:
            row["seconds"] = list(outcome.seconds)
        else:
            row["failure"] = outcome.failure
        if outcome.detail:
            row["detail"] = outcome.detail
        self._write(row)

    # Asking.

    def outcome(self, task: str, template: str, choice: Choice) -> Outcome | None:
        """Return what came of a trial in this session; of any session if it is quarantined."""
        key = (task, template, choice_key(choice))
        known = self._state.outcomes.get((key, self._state.session))
        return known if known is not None else self._quarantined().get(key)

    def outcomes(self, task: str) -> list[tuple[str, dict[str, int], Outcome]]:
        """Return template, choice and outcome of every trial of a block in this session."""
        return [
            (key[1], dict(key[2]), outcome)
            for (key, session), outcome in self._state.outcomes.items()
            if session == self._state.session and key[0] == task
        ]

    def history(self) -> Iterator[tuple[dict[str, Any], str, dict[str, int], Outcome]]:
        """Yield description of the block, template, choice and outcome of all trials ever."""
        for (key, _), outcome in self._state.outcomes.items():
            if key[0] in self._state.tasks:
                yield self._state.tasks[key[0]], key[1], dict(key[2]), outcome

    def cut_short(self, task: str) -> list[tuple[str, dict[str, int]]]:
        """Return template and choice of the block's trials to be tried once more."""
        quarantined = self._quarantined()
        return [
            (key[1], dict(key[2]))
            for key, trial in self._state.interrupted.items()
            if key[0] == task and key not in quarantined and trial.session == self._state.session
        ]

    @property
    def spent_seconds(self) -> float:
        """Return the time of this session when its last trial ended."""
        return self._state.spent.get(self._state.session, 0.0)

    def _quarantined(self) -> dict[TrialKey, Outcome]:
        found = {
            key: outcome
            for (key, _), outcome in self._state.outcomes.items()
            if outcome.is_quarantined
        }
        for key, trial in self._state.interrupted.items():
            if self.boot and trial.boot not in ("", self.boot):
                detail = "it was cut short, and the machine was started anew since"
                found.setdefault(key, Outcome(failure=DEVICE_LOST, detail=detail))
            elif trial.interruptions >= MOST_INTERRUPTIONS:
                detail = f"it was cut short {trial.interruptions} times"
                found.setdefault(key, Outcome(failure=INTERRUPTED, detail=detail))
        return found

    # The file.

    def _write(self, row: Mapping[str, Any]) -> None:
        """Write a line, and only then believe it."""
        self._lines.append(row)
        self._believe(dict(row))

    def _believe(self, row: dict[str, Any]) -> None:
        state = self._state
        event = row.pop("event", HEADER)
        if event in ("session", "resume"):
            # A process that ended left what it ran unfinished.
            state.cut_short()
            state.session = int(row["session"])
            if event == "session":
                state.sessions[state.session] = row
                state.spent[state.session] = 0.0
            self._boot_of_trials = str(row["boot"])
        elif event == "finish":
            state.finished.add(int(row["session"]))
        elif event == "task":
            state.tasks[str(row["task"])] = row
        elif event == "start":
            number = int(row["trial"])
            state.trials = max(state.trials, number)
            key = (str(row["task"]), str(row["template"]), choice_key(row["knobs"]))
            state.running[number] = _Trial(key, state.session, self._boot_of_trials)
        elif event == "abandon":
            trial = state.running.pop(int(row["trial"]))
            state.keep(replace(trial, boot=""), interruptions=0)
        elif event == "end":
            trial = state.running.pop(int(row["trial"]))
            outcome = Outcome(
                tuple(map(float, row.get("seconds", ()))),
                row.get("failure"),
                str(row.get("detail", "")),
            )
            state.outcomes[trial.key, trial.session] = outcome
            state.spent[trial.session] = float(row.get("spent", 0.0))
            state.interrupted.pop(trial.key, None)
        elif event != HEADER:
            raise ValueError(f"event {event!r}")

    _boot_of_trials = ""
