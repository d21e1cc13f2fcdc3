from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tvm import autotvm

from tests.relay_modules import TARGET
from tvm_fusionx.errors import RecordError
from tvm_fusionx.records.coverage import coverage_text
from tvm_fusionx.records.record import Record
from tvm_fusionx.records.tvm_logs import FORMATS, export_records, import_records
from tvm_fusionx.schedules import resolve_target, target_key

RESOLVED = resolve_target(TARGET)
RECORD = Record(
    target_key(RESOLVED), "-17", "dot", {"tile_rows": 4, "row_block": 8}, seconds=2e-3, trials=1
)


@pytest.mark.parametrize("form", FORMATS)
def test_knobs_survive_tvms_own_logs(tmp_path: Path, form: str) -> None:
    path = tmp_path / "log"
    other = replace(RECORD, hash="18", template="conv2d", knobs={"task_rows": 3})
    foreign = replace(RECORD, target="llvm other")
    assert export_records([RECORD, other, foreign], path, RESOLVED, form) == 2
    found = {record.hash: record for record in import_records(path, form)}
    assert set(found) == {"-17", "18"}
    for made in (RECORD, other):
        read = found[made.hash]
        assert (read.target, read.template, read.knobs) == (made.target, made.template, made.knobs)
        assert read.seconds == pytest.approx(2e-3)
        assert read.is_tuned


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_is_made_up_on_the_way(tmp_path: Path, form: str) -> None:
    """Neither trials nor a time nor a device that a record had not."""
    tuned = replace(RECORD, device="cpu, 2 threads", trials=5, measured_at=1763823456.125)
    timed = replace(tuned, hash="2", seconds=9e-3, trials=0)
    elsewhere = replace(tuned, device="a phone", knobs={"tile_rows": 1}, seconds=1.0)
    never = replace(tuned, hash="3", seconds=math.inf, trials=0)
    records, blocks = [tuned, timed, elsewhere, never], ["-17", "2", "3"]
    assert export_records(records, tmp_path / "log", RESOLVED, form) == 3
    found = import_records(tmp_path / "log", form)
    assert {record.key for record in found} == {record.key for record in records[:3]}
    kept = {record.hash: record for record in found if record.device == tuned.device}
    assert (kept["-17"].trials, kept["-17"].measured_at) == (5, tuned.measured_at)
    covered = coverage_text(blocks, {each.hash: each for each in (tuned, timed, never)})
    assert covered.startswith("1 of 3 blocks tuned, 18% of the time (1 ")
    assert coverage_text(blocks, kept) == covered


def test_records_without_a_time_are_not_exported(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="timed records"):
        export_records([replace(RECORD, seconds=math.inf)], tmp_path / "x", RESOLVED, "autotvm")


def test_a_log_that_does_not_tell_the_device_or_the_trials(tmp_path: Path) -> None:
    path = tmp_path / "log"
    export_records([replace(RECORD, device="d")], path, RESOLVED, "autotvm")
    row = json.loads(path.read_text())
    row["input"][2] = row["input"][2][:1]
    path.write_text(json.dumps(row))
    (read,) = import_records(path, "autotvm")
    assert (read.device, read.trials) == ("", 0)


def test_autotvm_reads_what_we_write(tmp_path: Path) -> None:
    export_records([RECORD], tmp_path / "log", RESOLVED, "autotvm")
    ((given, result),) = autotvm.record.load_from_file(str(tmp_path / "log"))
    assert given.task.name == "fusionx.dot"
    assert given.config["tile_rows"].val == 4
    assert result.costs == (2e-3,)


def test_the_fastest_of_a_block_counts(tmp_path: Path) -> None:
    slow = replace(RECORD, knobs={"tile_rows": 1}, seconds=1.0)
    path = tmp_path / "log"
    export_records([RECORD, slow], path, RESOLVED, "autotvm")
    (read,) = import_records(path, "autotvm")
    assert read.knobs == RECORD.knobs


def test_entries_of_other_templates_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "log"
    export_records([replace(RECORD, template="x")], path, RESOLVED, "autotvm")
    path.write_text(path.read_text().replace("fusionx.x", "dense_nopack.x86"))
    assert import_records(path, "autotvm") == []


@pytest.mark.parametrize("text", ['{"input": [1]}', "[" * 9999])
@pytest.mark.parametrize("form", FORMATS)
def test_what_cannot_be_read(tmp_path: Path, form: str, text: str) -> None:
    (tmp_path / "log").write_text(f"{text}\n")
    with pytest.raises(RecordError, match=form):
        import_records(tmp_path / "log", form)


def test_nothing_to_export(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="other"):
        export_records([replace(RECORD, target="llvm other")], tmp_path / "x", RESOLVED, "autotvm")
