from __future__ import annotations

from pathlib import Path

from tests.benchmarks.scripts import script


def test_a_run_goes_on_with_a_file_of_its_own_kind(tmp_path: Path) -> None:
    kept = script("kept_rows")
    path, content = tmp_path / "rows.json", {"device": {"cores": (1, 2)}, "versions": "1"}
    assert kept.read_rows(path, content) == {}
    kept.write_rows(path, content, {"a": {"model": "a", "ms": 1.5}})
    assert kept.read_rows(path, content) == {"a": {"model": "a", "ms": 1.5}}
    assert kept.read_rows(path, {**content, "versions": "2"}) == {}
