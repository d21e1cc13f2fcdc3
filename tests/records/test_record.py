from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from tvm_fusionx.errors import RecordError
from tvm_fusionx.records.record import FORMAT_VERSION, TRACE_VERSION, Record, parse_record

FILE = Path("tuned.jsonl")
RECORD = Record(
    "llvm znver4",
    "-17",
    "dot",
    {"tile_rows": 4},
    device="cpu, 2 threads",
    name="block_1",
    shapes=("float32[1, 64]",),
    seconds=2e-3,
    default_seconds=3e-3,
    flops=1e6,
    trials=12,
    tuner="grid",
    measured_at=5.0,
    versions="tvm 0.19",
)


def test_a_line_holds_the_whole_record() -> None:
    assert parse_record(FILE, 1, RECORD.line()) == RECORD
    assert RECORD.gain == pytest.approx(1.5)
    assert RECORD.is_tuned
    assert not RECORD.keeps_default
    assert replace(RECORD, default_seconds=RECORD.seconds).keeps_default


def test_a_schedule_of_tvms_own_needs_a_reader_that_knows_of_them() -> None:
    traced = replace(RECORD, template="tvm", knobs={}, trace="{}")
    row = json.loads(traced.line())
    assert (row["version"], row["trace"]) == (TRACE_VERSION, "{}")
    assert parse_record(FILE, 1, traced.line()) == traced
    assert json.loads(RECORD.line())["version"] == FORMAT_VERSION
    assert "trace" not in json.loads(RECORD.line())


def test_unknown_times_stay_unknown() -> None:
    read = parse_record(FILE, 1, Record("llvm", "1", "rows", {}).line())
    assert math.isinf(read.seconds)
    assert read.gain == 1.0
    assert not read.keeps_default
    assert not read.is_tuned


def test_fields_of_later_versions_are_kept() -> None:
    row = json.loads(RECORD.line()) | {"colour": "red"}
    assert json.loads(parse_record(FILE, 1, json.dumps(row)).line())["colour"] == "red"


@pytest.mark.parametrize(
    "line",
    [
        RECORD.line()[:-9],
        "[]",
        '{"version": 1}',
        RECORD.line().replace('"version": 1', '"version": 2'),
        RECORD.line().replace('"tile_rows": 4', '"tile_rows": "four"'),
        pytest.param("[" * 100_000, id="nested"),
    ],
)
def test_a_damaged_line_is_named(line: str) -> None:
    with pytest.raises(RecordError, match=r"tuned\.jsonl, line 7"):
        parse_record(FILE, 7, line)
