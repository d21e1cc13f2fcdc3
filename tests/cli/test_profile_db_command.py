from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.run_cli import Ran, runner
from tvm_fusionx.fusion.profile_database import Profile, ProfileDatabase, Setting
from tvm_fusionx.measuring.places import versions

HERE = Setting("llvm znver4", 2, "a processor", "tvm 0.18.0")
FAST = Profile("abcdefgh", HERE, "exp -> float32[4]", 2.5, measured_at=100.0)
FAILED = replace(FAST, key="ijklmnop", microseconds=math.inf, failure="ValueError: no")


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    monkeypatch.setenv("TVM_FUSIONX_DATA", str(tmp_path / "data"))
    return runner(capsys)


@pytest.fixture
def database(tmp_path: Path) -> ProfileDatabase:
    made = ProfileDatabase(tmp_path / "profiles.sqlite")
    made.add(FAST, FAILED)
    return made


def test_answers_are_shown_with_their_setting(
    run: Callable[..., Ran], database: ProfileDatabase, tmp_path: Path
) -> None:
    written = tmp_path / "shown.json"
    ran = run("profile-db", "show", "--profile-db", database.path, "--json", written)
    assert ran.code == 0, ran.err
    for text in ("a processor, 2 threads, llvm znver4", "2.5 us", "ValueError: no", "2 answers"):
        assert text in ran.out
    rows = json.loads(written.read_text())
    assert {row["key"]: row["microseconds"] for row in rows} == {"abcdefgh": 2.5, "ijklmnop": None}


def test_the_users_own_database_may_not_exist_yet(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("profile-db", "show")
    assert ran.code == 0
    assert "0 answers" in ran.out
    assert not (tmp_path / "data").exists()


def test_others_are_merged(
    run: Callable[..., Ran], database: ProfileDatabase, tmp_path: Path
) -> None:
    into = tmp_path / "into.sqlite"
    ran = run("profile-db", "merge", database.path, "--profile-db", into)
    assert ran.code == 0, ran.err
    assert "2 new or newer" in ran.out
    assert ProfileDatabase(into).profiles() == database.profiles()
    assert "0 new or newer" in run("profile-db", "merge", database.path, "--profile-db", into).out


def test_a_missing_database_cannot_be_merged(run: Callable[..., Ran], tmp_path: Path) -> None:
    ran = run("profile-db", "merge", tmp_path / "absent.sqlite")
    assert ran.code == 2
    assert "absent.sqlite" in ran.problem


def test_pruning_needs_a_reason_and_keeps_the_rest(
    run: Callable[..., Ran], database: ProfileDatabase
) -> None:
    database.add(replace(FAST, key="current", setting=replace(HERE, versions=versions())))
    assert run("profile-db", "prune", "--profile-db", database.path).code == 2
    ran = run("profile-db", "prune", "--other-versions", "--profile-db", database.path)
    assert ran.code == 0, ran.err
    assert "2 answers dropped, 1 left" in ran.out
    assert [profile.key for profile in database.profiles()] == ["current"]
    assert (
        "1 answers dropped"
        in run("profile-db", "prune", "--days", 1, "--profile-db", database.path).out
    )
