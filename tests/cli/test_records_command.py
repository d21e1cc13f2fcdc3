from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.errors import EXIT_USAGE
from tvm_fusionx.measuring.places import versions
from tvm_fusionx.records import Record, read_records, write_records
from tvm_fusionx.schedules import resolve_target, target_key

KEY = target_key(resolve_target("llvm -mcpu=native"))
TUNED = Record(
    KEY,
    "1",
    "dot",
    {"tile_rows": 4},
    device="a processor",
    name="fused_dense",
    seconds=1e-4,
    default_seconds=2e-4,
    trials=9,
    measured_at=50.0,
)
TIMED = replace(TUNED, hash="2", name="fused_softmax", knobs={}, trials=0, versions=versions())


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Ran]:
    return runner(capsys)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_records(tmp_path / "records", [TUNED, TIMED])
    return tmp_path / "records"


def test_records_are_shown(run: Callable[..., Ran], folder: Path, tmp_path: Path) -> None:
    ran = run("records", "show", folder, "--json", tmp_path / "shown.json")
    assert ran.code == 0, ran.err
    for said in (f"a processor, {KEY}", "fused_dense", "100.0 us", "2.00x", "tile_rows=4"):
        assert said in ran.out
    assert "2 records, 1 of them tuned" in ran.out
    assert len(json.loads((tmp_path / "shown.json").read_text())) == 2


def test_others_are_merged(run: Callable[..., Ran], folder: Path, tmp_path: Path) -> None:
    newer = replace(TUNED, knobs={"tile_rows": 2}, measured_at=60.0)
    write_records(tmp_path / "others", [newer])
    ran = run("records", "merge", tmp_path / "others", "--tuning-records", folder)
    assert ran.code == 0, ran.err
    assert read_records(folder) == [newer, TIMED]


def test_merging_into_a_file_of_another_kind(
    run: Callable[..., Ran], folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "other.json").write_text("[]")
    for into in (tmp_path / "other.json", Path("/proc/nothing/x.jsonl")):
        ran = run("records", "merge", folder, "--tuning-records", into)
        assert ran.code == EXIT_USAGE
        assert str(into if into.exists() else into.parent) in ran.problem


def test_differences(run: Callable[..., Ran], folder: Path, tmp_path: Path) -> None:
    write_records(tmp_path / "others", [replace(TUNED, knobs={"tile_rows": 2}), TIMED])
    ran = run("records", "diff", folder, tmp_path / "others")
    assert [line[:1] for line in ran.out.splitlines()] == ["-", "+", "1"]
    assert "1 blocks differ" in ran.out


def test_pruning(run: Callable[..., Ran], folder: Path) -> None:
    assert run("records", "prune", "--tuning-records", folder).code == 2
    ran = run("records", "prune", "--tuning-records", folder, "--other-versions")
    assert "1 records dropped, 1 left" in ran.out
    assert read_records(folder) == [TIMED]


def test_export_and_import(run: Callable[..., Ran], folder: Path, tmp_path: Path) -> None:
    for form in ("autotvm", "metaschedule"):
        log = tmp_path / form
        assert run("records", "export", folder, "-o", log, "--format", form).code == 0
        into = tmp_path / f"from_{form}"
        ran = run("records", "import", log, "--format", form, "--tuning-records", into)
        assert ran.code == 0, ran.err
        assert {record.hash for record in read_records(into)} == {"1", "2"}


def test_records_that_are_not_there(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("records", "show", tmp_path / "none.jsonl")
    assert ran.code == 2
    assert "none.jsonl" in ran.problem


def test_an_export_leaves_the_files_of_others(
    run: Callable[..., Ran], folder: Path, tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("x")
    ran = run("records", "export", folder, "-o", mine, "--format", "metaschedule")
    assert ran.code == EXIT_USAGE
    assert "thesis.txt" in ran.problem
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]
