from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from tvm_fusionx.errors import OutputFileError, RecordError
from tvm_fusionx.fusion.device_costs import DEFAULT_COSTS, DeviceCosts


def test_costs_are_read_as_they_were_written(tmp_path: Path) -> None:
    costs = DeviceCosts(launch_us=3.5, cache_bytes=1 << 20)
    costs.save(tmp_path / "costs.json")
    assert DeviceCosts.load(tmp_path / "costs.json") == costs


def test_every_default_is_positive() -> None:
    assert all(value > 0 for value in asdict(DEFAULT_COSTS).values())


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        json.dumps({"launch_us": 1.0}),
        json.dumps(asdict(DEFAULT_COSTS) | {"launch_us": 0.0}),
        json.dumps(asdict(DEFAULT_COSTS) | {"launch_us": None}),
        json.dumps(asdict(DEFAULT_COSTS) | {"unheard_of": 1.0}),
        pytest.param("[" * 100_000, id="nested"),
    ],
)
def test_a_damaged_file_is_named_and_what_to_do(content: str, tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    path.write_text(content)
    with pytest.raises(RecordError, match=r"costs\.json.*calibrate"):
        DeviceCosts.load(path)


def test_a_missing_file_is_a_record_error(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="absent"):
        DeviceCosts.load(tmp_path / "absent.json")


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError):
        DEFAULT_COSTS.save(tmp_path / "no" / "folder.json")
