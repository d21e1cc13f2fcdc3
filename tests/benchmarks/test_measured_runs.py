from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.benchmarks.scripts import script

measured_runs = script("measured_runs")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a repository of one commit."""
    for name in ("source.py", "README.md", "benchmarks/results/run.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as committed")
    as_somebody = ("-c", "user.name=somebody", "-c", "user.email=somebody@example.org")
    for words in (("init", "-q"), ("add", "."), (*as_somebody, "commit", "-qm", "All")):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize("name", ["README.md", "benchmarks/results/run.json"])
def test_what_a_run_writes_changes_nothing_that_is_measured(checkout: Path, name: str) -> None:
    committed = measured_runs.commit_here(checkout)
    (checkout / name).write_text("written by a run")
    assert measured_runs.commit_here(checkout) == committed


def test_a_changed_source_is_said(checkout: Path) -> None:
    committed = measured_runs.commit_here(checkout)
    (checkout / "source.py").write_text("not as committed")
    assert measured_runs.commit_here(checkout) == f"{committed}-dirty"


def test_the_newest_run_of_each_device_is_kept_the_newest_first(tmp_path: Path) -> None:
    for device, date, full in (
        ("a", "2026-01-01", True),
        ("a", "2026-01-02", True),
        ("a", "2026-01-04", False),
        ("b", "2026-01-03", False),
    ):
        folder = measured_runs.folder_of(device, date, tmp_path)
        folder.mkdir(parents=True)
        facts = {"device": device, "date": date, "full": full}
        (folder / "run.json").write_text(json.dumps(facts))
    assert [each.facts["date"] for each in measured_runs.kept_runs(tmp_path)] == [
        "2026-01-03",
        "2026-01-02",
    ]


def test_git_keeps_one_run_of_each_processor() -> None:
    devices = [path.parent.name for path in measured_runs.RESULTS.glob("*/*/run.json")]
    assert devices, "no results are kept"
    assert len(devices) == len(set(devices))
