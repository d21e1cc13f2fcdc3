from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.relay_modules import TARGET
from tvm_fusionx.errors import OutputFileError, RecordError
from tvm_fusionx.records.device import this_device
from tvm_fusionx.records.record import Record
from tvm_fusionx.records.store import (
    SECONDS_A_DAY,
    add_records,
    differing_records,
    load_records,
    merge_records,
    own_file,
    prune_records,
    read_records,
    record_files,
    write_records,
)
from tvm_fusionx.schedules import resolve_target, target_key

RESOLVED = resolve_target(TARGET)
KEY = target_key(RESOLVED)
OLD = Record(KEY, "1", "dot", {"tile_rows": 2}, device="a", measured_at=1.0)
NEW = replace(OLD, knobs={"tile_rows": 4}, measured_at=2.0)
OTHER_DEVICE = replace(OLD, knobs={"tile_rows": 8}, device="b", measured_at=3.0)


def test_what_is_written_is_read_from_file_and_folder(tmp_path: Path) -> None:
    file = write_records(tmp_path / "deep" / "folder", [OLD, OTHER_DEVICE])
    assert file == own_file(tmp_path / "deep" / "folder")
    assert record_files(file.parent) == [file]
    assert read_records(file) == read_records(file.parent) == [OLD, OTHER_DEVICE]


def test_the_newest_record_of_a_block_counts_and_the_devices_own_first(tmp_path: Path) -> None:
    write_records(tmp_path, [NEW, OLD, OTHER_DEVICE])
    assert load_records(tmp_path, RESOLVED)["1"] == OTHER_DEVICE
    assert load_records(tmp_path, RESOLVED, "a")["1"] == NEW
    assert load_records(None, RESOLVED) == {}


def test_this_machines_records_count_unless_another_device_is_named(tmp_path: Path) -> None:
    here = replace(OLD, device=this_device(RESOLVED) or "")
    write_records(tmp_path, [here, OTHER_DEVICE, replace(OTHER_DEVICE, hash="2")])
    assert load_records(tmp_path, RESOLVED) == {"1": here, "2": replace(OTHER_DEVICE, hash="2")}
    assert load_records(tmp_path, RESOLVED, "b")["1"] == OTHER_DEVICE


@pytest.mark.parametrize("second", [OTHER_DEVICE, replace(OTHER_DEVICE, hash="2")])
def test_records_of_several_devices_are_warned_of_where_none_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, second: Record
) -> None:
    phone = resolve_target("llvm -mtriple=aarch64-linux-gnu")
    records = [replace(each, target=target_key(phone)) for each in (OLD, second)]
    write_records(tmp_path, records)
    assert load_records(tmp_path, phone, "a")["1"] == records[0]
    assert not caplog.records
    assert load_records(tmp_path, phone)[second.hash] == records[1]
    said = [each.levelname for each in caplog.records if "the newest count" in each.message]
    assert said == (["WARNING"] if second.hash == "1" else [])


def test_schedules_of_another_tvm_are_refused(tmp_path: Path) -> None:
    trace = '{"tvm": "0.11.0", "trace": [[], []]}'
    traced = replace(OLD, template="tvm", knobs={}, trace=trace)
    write_records(tmp_path, [traced])
    assert read_records(tmp_path) == [traced]
    with pytest.raises(RecordError, match=r"a trace of TVM 0\.11\.0"):
        load_records(tmp_path, RESOLVED)
    assert differing_records([OLD], [traced]) == [(OLD, traced)]


def test_records_of_another_target_are_refused(tmp_path: Path) -> None:
    write_records(tmp_path, [replace(OLD, target="llvm cortex-a53")])
    with pytest.raises(RecordError, match="cortex-a53"):
        load_records(tmp_path, RESOLVED)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    file = write_records(tmp_path, [OLD])
    with file.open("a", encoding="utf-8") as opened:
        opened.write('{"target": "llvm", "ha')
    with pytest.raises(RecordError, match="line 2"):
        read_records(tmp_path)


def test_missing_records(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"none\.jsonl"):
        read_records(tmp_path / "none.jsonl")


def test_adding_replaces_the_record_of_the_same_block(tmp_path: Path) -> None:
    add_records(tmp_path, [OLD, OTHER_DEVICE])
    add_records(tmp_path, [NEW])
    assert read_records(tmp_path) == [NEW, OTHER_DEVICE]


def test_merging_keeps_the_newest() -> None:
    assert merge_records([[NEW], [OLD, OTHER_DEVICE]]) == [NEW, OTHER_DEVICE]


def test_differences_are_choices_and_records_of_one_side() -> None:
    timed_again = replace(OLD, seconds=1.0)
    assert differing_records([OLD], [timed_again]) == []
    assert differing_records([OLD], [NEW]) == [(OLD, NEW)]
    assert differing_records([OLD], [OTHER_DEVICE]) == [(OLD, None), (None, OTHER_DEVICE)]


def test_pruning_by_age_versions_and_target() -> None:
    now = replace(OLD, measured_at=time.time(), versions="v2", target="llvm x")
    assert prune_records([OLD, now], older_than_days=1) == [now]
    assert prune_records([replace(now, measured_at=now.measured_at - 2 * SECONDS_A_DAY)]) != []
    assert prune_records([OLD, now], keep_versions="v2") == [now]
    assert prune_records([OLD, now], keep_target=KEY) == [OLD]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").mkdir()
    with pytest.raises(OutputFileError):
        write_records(tmp_path, [OLD])


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[]")
    with pytest.raises(OutputFileError, match=r"other\.json: .*File exists"):
        write_records(tmp_path / "other.json", [OLD])
    assert (tmp_path / "other.json").read_text() == "[]"
