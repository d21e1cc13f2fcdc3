"""Nothing that was written is lost, and nothing that ended is tried again."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.errors import OutputFileError, RecordError
from tvm_fusionx.tuning.journal import DRY_RUN, Journal
from tvm_fusionx.tuning.outcome import DEVICE_LOST, INTERRUPTED, TIMEOUT, Outcome

SESSION = {"model": "m", "tuner": "grid"}
GOOD = Outcome(seconds=(2.0, 1.0, 3.0))
CHOICE = {"a": 1, "b": 2}


def _open(path: Path, **options: Any) -> Journal:
    return Journal(path, "llvm", "cpu", **options)


def test_outcomes_survive(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "j.jsonl"
    with _open(path) as journal:
        journal.begin_session(SESSION)
        trial = journal.start("task", "dot", CHOICE)
        assert journal.outcome("task", "dot", CHOICE) is None
        journal.end(trial, GOOD, 5.0)
    with _open(path) as journal:
        assert journal.outcome("task", "dot", CHOICE) is None, "of another session"
        assert journal.resume_session(SESSION) == 1
        assert journal.outcome("task", "dot", CHOICE) == GOOD
        assert journal.outcomes("task") == [("dot", CHOICE, GOOD)]
        assert journal.spent_seconds == 5.0
    assert GOOD.least_seconds == 1.0


def test_a_session_that_ended_is_not_resumed(tmp_path: Path) -> None:
    with _open(tmp_path / "j") as journal:
        assert journal.resume_session(SESSION) is None
        journal.begin_session(SESSION)
        journal.end_session()
        assert journal.resume_session(SESSION) is None
        journal.begin_session(SESSION)
        assert journal.resume_session({"model": "another"}) is None
        assert journal.resume_session(SESSION) == 2


@pytest.mark.parametrize("kind", [DEVICE_LOST, TIMEOUT])
def test_what_took_the_device_with_it_is_never_tried_again(tmp_path: Path, kind: str) -> None:
    with _open(tmp_path / "j") as journal:
        journal.begin_session(SESSION)
        journal.end(journal.start("task", "dot", CHOICE), Outcome(failure=kind, detail="gone"))
        journal.begin_session(SESSION)
        known = journal.outcome("task", "dot", CHOICE)
        assert known == Outcome(failure=kind, detail="gone")
        assert known.is_quarantined


def test_a_trial_cut_short_once_is_tried_again_and_twice_never(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with _open(path) as journal:
        journal.begin_session(SESSION)
        journal.start("task", "dot", CHOICE)
    with _open(path) as journal:
        journal.resume_session(SESSION)
        assert journal.outcome("task", "dot", CHOICE) is None
        assert journal.cut_short("task") == [("dot", CHOICE)]
        journal.start("task", "dot", CHOICE)
    with _open(path) as journal:
        journal.resume_session(SESSION)
        assert journal.cut_short("task") == []
        known = journal.outcome("task", "dot", CHOICE)
        assert known is not None
        assert known.failure == INTERRUPTED
        assert known.is_quarantined


def test_a_trial_during_which_the_machine_went_down_is_never_tried_again(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with _open(path) as journal:
        journal.boot = "before"
        journal.begin_session(SESSION)
        journal.start("task", "dot", CHOICE)
    with _open(path) as journal:
        journal.boot = "after"
        journal.resume_session(SESSION)
        known = journal.outcome("task", "dot", CHOICE)
        assert known is not None
        assert "started anew" in known.detail


def test_another_boot_of_this_machine_says_nothing_of_a_phones_trial(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with _open(path) as journal:
        # As journals of phones were written before.
        journal.boot = "before"
        journal.begin_session(SESSION)
        journal.start("task", "dot", CHOICE)
    with _open(path, is_local=False) as journal:
        journal.resume_session(SESSION)
        assert journal.outcome("task", "dot", CHOICE) is None
        assert journal.cut_short("task") == [("dot", CHOICE)]
        journal.start("task", "dot", CHOICE)
    with _open(path, is_local=False) as journal:
        journal.resume_session(SESSION)
        known = journal.outcome("task", "dot", CHOICE)
        assert known is not None
        assert known.failure == INTERRUPTED


def test_a_trial_that_was_abandoned_is_tried_again_however_often(tmp_path: Path) -> None:
    path = tmp_path / "j"
    for attempt in range(3):
        with _open(path) as journal:
            journal.boot = f"boot {attempt}"
            if journal.resume_session(SESSION) is None:
                journal.begin_session(SESSION)
            assert journal.outcome("task", "dot", CHOICE) is None
            assert journal.cut_short("task") == ([("dot", CHOICE)] if attempt else [])
            journal.abandon(journal.start("task", "dot", CHOICE))
    with _open(path) as journal:
        journal.boot = "boot 2"
        journal.resume_session(SESSION)
        journal.start("task", "dot", CHOICE)
    with _open(path) as journal:
        journal.boot = "boot 2"
        journal.resume_session(SESSION)
        assert journal.cut_short("task") == [("dot", CHOICE)], "cut short for the first time"


def test_an_abandoned_trial_keeps_the_interruption_it_had(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with _open(path) as journal:
        journal.begin_session(SESSION)
        journal.start("task", "dot", CHOICE)
    with _open(path) as journal:
        journal.resume_session(SESSION)
        journal.abandon(journal.start("task", "dot", CHOICE))
        journal.start("task", "dot", CHOICE)
    with _open(path) as journal:
        journal.resume_session(SESSION)
        assert journal.cut_short("task") == []


def test_a_dry_run_does_not_hide_the_session_before_it(tmp_path: Path) -> None:
    with _open(tmp_path / "j") as journal:
        first = journal.begin_session(SESSION)
        journal.begin_session(SESSION | {DRY_RUN: True})
    with _open(tmp_path / "j") as journal:
        assert journal.resume_session(SESSION) == first


def test_a_cut_anywhere_in_the_last_line_loses_no_trial_before_it(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with _open(path) as journal:
        journal.begin_session(SESSION)
        journal.end(journal.start("task", "dot", CHOICE), GOOD)
        journal.end(journal.start("task", "dot", {"a": 2}), GOOD)
    content = path.read_bytes()
    last = content.rstrip(b"\n").rfind(b"\n") + 1
    for length in range(last, len(content) + 1):
        path.write_bytes(content[:length])
        with _open(path) as journal:
            journal.resume_session(SESSION)
            assert journal.outcome("task", "dot", CHOICE) == GOOD
            is_whole = length >= len(content) - 1
            assert (journal.outcome("task", "dot", {"a": 2}) == GOOD) is is_whole
            assert bool(journal.cut_short("task")) is not is_whole
        assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_damaged_line_before_the_last_is_named(tmp_path: Path) -> None:
    path = tmp_path / "j"
    with _open(path) as journal:
        journal.begin_session(SESSION)
        journal.start("task", "dot", CHOICE)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1][:9], lines[2]]) + "\n")
    with pytest.raises(RecordError, match="line 2"):
        _open(path)


def test_a_journal_of_another_device_is_refused(tmp_path: Path) -> None:
    _open(tmp_path / "j").close()
    with pytest.raises(RecordError, match="phone"):
        Journal(tmp_path / "j", "llvm", "phone")


def test_two_processes_cannot_write_one_journal(tmp_path: Path) -> None:
    with _open(tmp_path / "j"), pytest.raises(RecordError, match="another process"):
        _open(tmp_path / "j")


class _FullDisk:
    """A file on a disk with room for so many bytes."""

    def __init__(self, path: Path, room: int) -> None:
        self.file = path.open("ab", buffering=0)
        self.room = room

    def write(self, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self.file.write(data[: self.room])
        self.room -= written
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)


def test_a_full_disk_keeps_everything_before(tmp_path: Path) -> None:
    path = tmp_path / "j"
    disks: list[_FullDisk] = []

    def on_small_disk(where: Path) -> Any:
        disks.append(_FullDisk(where, 700))
        return disks[-1]

    ended: list[dict[str, int]] = []

    def write_until_full(journal: Journal) -> None:
        for number in range(100):
            choice = {"a": number}
            journal.end(journal.start("task", "dot", choice), GOOD)
            ended.append(choice)

    with _open(path, open_file=on_small_disk) as journal:
        journal.begin_session(SESSION)
        with pytest.raises(OutputFileError, match="No space left"):
            write_until_full(journal)
    assert 0 < len(ended) < 100
    with _open(path) as journal:
        journal.resume_session(SESSION)
        assert [choice for _, choice, _ in journal.outcomes("task")] == ended


def test_history_tells_of_all_sessions(tmp_path: Path) -> None:
    with _open(tmp_path / "j") as journal:
        journal.begin_session(SESSION)
        journal.add_task("task", {"flops": 3})
        journal.add_task("task", {"flops": 4})
        journal.end(journal.start("task", "dot", CHOICE), GOOD)
        journal.begin_session(SESSION)
        ((row, template, choice, outcome),) = journal.history()
    assert (row["flops"], template, choice, outcome) == (3, "dot", CHOICE, GOOD)
