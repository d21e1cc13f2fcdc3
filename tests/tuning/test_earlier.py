from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.tuning.small_tasks import RESOLVED, made_up_task
from tvm_fusionx.errors import RecordError
from tvm_fusionx.records import Record, write_records
from tvm_fusionx.schedules import target_key
from tvm_fusionx.tuning.earlier import Earlier
from tvm_fusionx.tuning.task import TRACE

TASK = made_up_task()
FOUND = TASK.space.choice(5)
RECORD = Record(
    target_key(RESOLVED),
    TASK.key,
    "dot",
    FOUND,
    device="d",
    trials=9,
    measured_at=1.0,
    versions="v",
)
DEFAULT = replace(RECORD, knobs=TASK.space.default, trials=2, measured_at=2.0)


def test_the_records_of_the_device_and_target_are_read_from_the_whole_folder(
    tmp_path: Path,
) -> None:
    write_records(tmp_path / "one.jsonl", [replace(RECORD, measured_at=0.0, knobs={}), RECORD])
    others = [replace(RECORD, device="e", hash="1"), replace(RECORD, target="llvm x", hash="2")]
    write_records(tmp_path / "two.jsonl", others)
    assert Earlier.read(tmp_path, RESOLVED, "d").records == {TASK.key: RECORD}
    assert Earlier.read(tmp_path / "none", RESOLVED, "d").records == {}


def test_damaged_records_are_named(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").write_text("{")
    with pytest.raises(RecordError, match="line 1"):
        Earlier.read(tmp_path, RESOLVED, "d")


def test_what_was_found_is_a_choice_unless_it_is_the_default_or_fits_no_longer() -> None:
    def choice(**changes: object) -> object:
        return Earlier({TASK.key: replace(RECORD, **changes)}).choice(TASK)  # type: ignore[arg-type]

    assert choice() == FOUND
    assert choice(template="tvm", knobs={}, trace="{}") == {TRACE: "{}"}
    assert choice(knobs=TASK.space.default) is None
    assert choice(knobs={"knob_0": 99}) is None
    assert choice(template="rows") is None
    assert Earlier().choice(TASK) is None


def test_a_record_stays_where_its_choice_could_not_be_compared() -> None:
    earlier = Earlier({TASK.key: RECORD})
    assert earlier.joined_by([DEFAULT], {TASK.key}) == []
    assert earlier.joined_by([DEFAULT], ()) == [replace(DEFAULT, trials=11)]
    newer = replace(DEFAULT, versions="of later kernels")
    assert earlier.joined_by([newer], {TASK.key}) == [newer]
    assert Earlier().joined_by([DEFAULT], {TASK.key}) == [DEFAULT]


def test_trials_of_other_kernels_count_where_their_choice_is_kept() -> None:
    kept = replace(RECORD, versions="of later kernels", trials=0)
    assert Earlier({TASK.key: RECORD}).joined_by([kept], ()) == [replace(kept, trials=9)]
