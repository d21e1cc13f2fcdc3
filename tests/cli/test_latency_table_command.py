from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.run_cli import runner
from tests.search.small_spaces import CNNS

ONE = {"depth": [1], "width": [8], "kernel": [3], "kind": ["dense"], "expansion": [1], "stride": 2}


@pytest.mark.slow
def test_a_table_of_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = runner(capsys)
    space = tmp_path / "space.json"
    space.write_text(json.dumps({**CNNS, "stages": [ONE]}))
    out = tmp_path / "table.json"
    words = [
        "latency-table",
        str(space),
        "-o",
        str(out),
        "--profile-db",
        str(tmp_path / "p.sqlite"),
    ]
    ran = run(*words, "--checks", "1")
    assert ran.code == 0, ran.err
    assert "1 networks in the space, 1 planned" in ran.out
    assert "are off by" in ran.out
    content = json.loads(out.read_text())
    assert all(row["microseconds"] > 0 for row in content["kernels"].values())
    again = run(*words, "--checks", "0")
    assert "0 of them timed now" in again.out


def test_a_wrong_space_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = tmp_path / "space.json"
    space.write_text("{}")
    ran = runner(capsys)("latency-table", str(space), "-o", str(tmp_path / "t.json"))
    assert ran.code == 2
    assert "search space, family" in ran.problem
