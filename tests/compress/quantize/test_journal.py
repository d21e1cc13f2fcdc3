from __future__ import annotations

import json
from pathlib import Path

import pytest

from tvm_fusionx.compress.quantize.journal import TrialJournal
from tvm_fusionx.compress.quantize.score import Score
from tvm_fusionx.errors import OutputFileError, RecordError

GOOD, BAD = Score(0.9, 0.01), Score(0.2, 0.5)


def _filled(path: Path) -> None:
    journal = TrialJournal(path, "one")
    journal.add(["b", "a"], GOOD)
    journal.add(["a"], BAD)


def test_trials_are_found_again(tmp_path: Path) -> None:
    _filled(tmp_path / "j")
    journal = TrialJournal(tmp_path / "j", "one", resume=True)
    assert len(journal) == 2
    assert journal.get({"a", "b"}) == GOOD
    assert journal.get(["b"]) is None
    assert [score for _, score in journal.trials()] == [GOOD, BAD]


def test_without_resume_it_begins_anew(tmp_path: Path) -> None:
    _filled(tmp_path / "j")
    assert len(TrialJournal(tmp_path / "j", "one")) == 0
    assert len((tmp_path / "j").read_text().splitlines()) == 1


def test_a_line_without_its_end_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "j"
    _filled(path)
    path.write_text(path.read_text()[:-5])
    journal = TrialJournal(path, "one", resume=True)
    assert [score for _, score in journal.trials()] == [GOOD]
    journal.add(["c"], BAD)
    assert [json.loads(line) for line in path.read_text().splitlines()][2]["int8"] == ["c"]


def test_an_empty_file_is_begun(tmp_path: Path) -> None:
    (tmp_path / "j").touch()
    assert len(TrialJournal(tmp_path / "j", "one", resume=True)) == 0


DAMAGED = [b"{}\n", b"no JSON\n", b'{"a": 1}\n[]\n', b"\xff\n", b"[" * 100_000 + b"\n"]


@pytest.mark.parametrize("held", DAMAGED, ids=["{}", "none", "list", "no text", "nested"])
def test_a_damaged_file_is_told(tmp_path: Path, held: bytes) -> None:
    (tmp_path / "j").write_bytes(held)
    with pytest.raises(RecordError, match="begin anew without --resume"):
        TrialJournal(tmp_path / "j", "one", resume=True)


def test_another_models_is_refused(tmp_path: Path) -> None:
    _filled(tmp_path / "j")
    with pytest.raises(RecordError, match="another model"):
        TrialJournal(tmp_path / "j", "two", resume=True)


def test_a_row_without_its_score_is_told(tmp_path: Path) -> None:
    _filled(tmp_path / "j")
    with (tmp_path / "j").open("a") as file:
        file.write('{"int8": ["z"]}\n')
    with pytest.raises(RecordError, match="KeyError"):
        TrialJournal(tmp_path / "j", "one", resume=True)


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError):
        TrialJournal(tmp_path / "none" / "j", "one")


def test_without_a_file_it_is_in_memory() -> None:
    journal = TrialJournal(None, "one")
    journal.add(["a"], GOOD)
    assert journal.get(["a"]) == GOOD
