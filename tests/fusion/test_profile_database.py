from __future__ import annotations

import math
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tvm_fusionx.errors import RecordError
from tvm_fusionx.fusion.profile_database import (
    SECONDS_A_DAY,
    Profile,
    ProfileDatabase,
    Setting,
)

HERE = Setting("llvm znver4", 2, "a processor", "tvm 0.19.0")
FAST = Profile("abc", HERE, "exp -> float32[4]", 2.5, measured_at=100.0)


@pytest.fixture
def database(tmp_path: Path) -> ProfileDatabase:
    return ProfileDatabase(tmp_path / "deep" / "profiles.sqlite")


def test_an_answer_is_found_under_its_setting_alone(database: ProfileDatabase) -> None:
    assert database.find("abc", HERE) is None
    assert database.add(FAST) == 1
    assert database.find("abc", HERE) == FAST
    for other in (
        replace(HERE, target="llvm generic"),
        replace(HERE, threads=1),
        replace(HERE, device="another"),
        replace(HERE, versions="tvm 0.18.0"),
    ):
        assert database.find("abc", other) is None


def test_a_failure_is_an_answer(database: ProfileDatabase) -> None:
    failed = replace(FAST, microseconds=math.inf, failure="it does not build")
    database.add(failed)
    assert database.find("abc", HERE) == failed


def test_the_newer_answer_stays(database: ProfileDatabase) -> None:
    newer = replace(FAST, microseconds=9.0, measured_at=200.0)
    assert database.add(newer) == 1
    assert database.add(FAST) == 0
    assert database.profiles() == [newer]


def test_merging_adds_what_is_new_or_newer_and_is_idempotent(
    database: ProfileDatabase, tmp_path: Path
) -> None:
    other = ProfileDatabase(tmp_path / "other.sqlite")
    database.add(FAST, replace(FAST, key="both", microseconds=1.0))
    other.add(
        replace(FAST, key="both", microseconds=2.0, measured_at=300.0), replace(FAST, key="new")
    )
    assert database.merge(other) == 2
    assert database.merge(other) == 0
    found = {profile.key: profile.microseconds for profile in database.profiles()}
    assert found == {"abc": 2.5, "both": 2.0, "new": 2.5}


def test_merging_a_file_that_is_not_there_makes_none(
    database: ProfileDatabase, tmp_path: Path
) -> None:
    with pytest.raises(RecordError, match=r"absent\.sqlite"):
        database.merge(ProfileDatabase(tmp_path / "absent.sqlite"))
    assert not (tmp_path / "absent.sqlite").exists()


def test_pruning_by_age_and_by_versions(database: ProfileDatabase) -> None:
    today = replace(FAST, key="today", measured_at=time.time())
    old_version = replace(today, key="old", setting=replace(HERE, versions="tvm 0.18.0"))
    database.add(FAST, today, old_version)
    assert database.prune() == 0
    assert database.prune(older_than_days=time.time() / SECONDS_A_DAY / 2) == 1
    assert database.prune(keep_versions=HERE.versions) == 1
    assert database.profiles() == [today]


def test_a_refused_answer_leaves_none_of_its_company(database: ProfileDatabase) -> None:
    with pytest.raises(RecordError, match="NOT NULL"):
        database.add(FAST, replace(FAST, key=None))  # type: ignore[arg-type]
    assert database.profiles() == []


def test_many_writers_lose_nothing(database: ProfileDatabase) -> None:
    def write(number: int) -> int:
        return database.add(replace(FAST, key=str(number)))

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(write, range(40))) == 40
    assert len(database.profiles()) == 40


def test_another_file_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "text.sqlite"
    path.write_text("not a database, and long enough that SQLite can tell so from its header")
    with pytest.raises(RecordError, match=r"text\.sqlite"):
        ProfileDatabase(path).profiles()
    assert path.read_text().startswith("not a database")
    foreign = tmp_path / "foreign.sqlite"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE songs (name TEXT)")
    with pytest.raises(RecordError, match="format"):
        ProfileDatabase(foreign).add(FAST)
