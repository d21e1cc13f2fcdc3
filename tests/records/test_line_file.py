from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tvm_fusionx.errors import OutputFileError, RecordError
from tvm_fusionx.records.line_file import LineFile, Words

HEADER = {"journal": 1}
WORDS = Words("a journal", "one process", "Give another.", "Make room.")
ROWS = [{"event": "start", "trial": 1}, {"event": "end", "trial": 1}]


def _opened(path: Path) -> tuple[LineFile, list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    lines = LineFile(path, HEADER, WORDS)
    try:
        lines.read(rows.append)
    except BaseException:
        lines.close()
        raise
    return lines, rows


def _write(path: Path) -> None:
    lines, _ = _opened(path)
    for row in ROWS:
        lines.append(row)
    lines.close()


def test_what_is_added_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "lines.jsonl"
    _write(path)
    lines, rows = _opened(path)
    lines.close()
    assert rows == ROWS
    assert json.loads(path.read_text().splitlines()[0]) == HEADER


def test_a_file_cut_anywhere_loses_its_last_line_at_most(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    _write(path)
    content = path.read_bytes()
    begins = len(json.dumps(HEADER)) + 1
    for length in range(begins, len(content) + 1):
        path.write_bytes(content[:length])
        lines, rows = _opened(path)
        whole = content[:length].count(b"\n") - 1
        assert rows[:whole] == ROWS[:whole]
        assert len(rows) <= whole + 1
        lines.append({"event": "more"})
        lines.close()
        lines, again = _opened(path)
        lines.close()
        assert again == [*rows, {"event": "more"}]


def test_another_first_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"journal": 2}\n')
    with pytest.raises(RecordError, match="Give another"):
        _opened(path)


@pytest.mark.parametrize("damage", ["{event", "[" * 100_000], ids=["no JSON", "nested"])
def test_a_damaged_line_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "lines.jsonl"
    _write(path)
    path.write_text(path.read_text().replace('{"event": "start"', damage, 1))
    with pytest.raises(RecordError, match="line 2"):
        _opened(path)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    lines, _ = _opened(tmp_path / "lines.jsonl")
    with pytest.raises(RecordError, match="another process"):
        _opened(tmp_path / "lines.jsonl")
    lines.close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputFileError, match="Make room"):
        _opened(tmp_path / "file" / "lines.jsonl")
