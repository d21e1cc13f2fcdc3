from __future__ import annotations

from dataclasses import replace

from tvm_fusionx.records.coverage import coverage_text
from tvm_fusionx.records.record import Record


def _record(seconds: float, trials: int) -> Record:
    return Record("llvm", "", "dot", {}, seconds=seconds, trials=trials)


def test_blocks_and_share_of_the_time() -> None:
    records = {"a": _record(3.0, 5), "b": _record(1.0, 0)}
    assert coverage_text(["a", "b"], records) == "1 of 2 blocks tuned, 75% of the time"


def test_blocks_that_were_never_timed_are_counted() -> None:
    records = {"a": _record(3.0, 5)}
    text = "2 of 4 blocks tuned, 100% of the time (2 blocks never timed)"
    assert coverage_text(["a", "a", "c", None], records) == text


def test_records_of_several_devices_are_told() -> None:
    records = {"a": _record(3.0, 5), "b": replace(_record(1.0, 5), device="another")}
    assert coverage_text(["a", "b"], records).endswith("100% of the time; records of 2 devices")
    assert coverage_text(["a"], records).endswith("100% of the time")


def test_without_times_there_is_no_share() -> None:
    assert coverage_text(["a"], {}) == "0 of 1 blocks tuned"
