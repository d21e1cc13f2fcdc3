"""The schedules of the zoo's blocks are those of the committed file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.scripts import script
from tvm_fusionx import zoo

hashing: Any = script("schedule_hashes")

ROW = ["dot", "123", "minilm", "dense_add"]
OTHER = ["rows", "456", "gpt2", "softmax"]
KNOWN = {"avx2": {"k1": ROW, "k2": OTHER}}

# Of few and small blocks of several templates.
SMALL_MODEL = "mobilenet-v1"


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hashes.json"
    hashing.write_file(KNOWN, path)
    assert hashing.read_file(path) == KNOWN
    assert len(path.read_text(encoding="utf-8").splitlines()) == 6


def test_equal_schedules_differ_in_nothing() -> None:
    assert hashing.differences(KNOWN, KNOWN, ["minilm", "gpt2"]) == []
    # Models that were not looked at are not missing.
    assert hashing.differences(KNOWN, {"avx2": {"k1": ROW}}, ["minilm"]) == []


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"k1": ["dot", "999", *ROW[2:]]}, "avx2: minilm: dense_add (k1): dot"),
        ({"k1": ["rows", "999", *ROW[2:]]}, "avx2: minilm: dense_add (k1): dot -> rows"),
        ({"k1": ROW, "k3": ROW}, "avx2: minilm: dense_add (k3): new block, dot"),
        ({}, "avx2: minilm: dense_add (k1): no such block any more, was dot"),
    ],
)
def test_a_difference_names_its_block(rows: dict[str, list[str]], said: str) -> None:
    assert hashing.differences(KNOWN, {"avx2": rows}, ["minilm"]) == [said]


def test_rows_of_other_models_stay_when_one_is_renewed() -> None:
    new = ["dot", "789", "minilm", "dense_add"]
    assert hashing.merged(KNOWN, {"avx2": {"k4": new}}, ["minilm"]) == {
        "avx2": {"k2": OTHER, "k4": new}
    }


def test_the_file_is_of_models_of_the_zoo_for_every_processor() -> None:
    found = hashing.read_file()
    assert list(found) == list(hashing.PROCESSORS)
    for rows in found.values():
        # A block of several models stands once.
        assert SMALL_MODEL in {row[2] for row in rows.values()} <= set(zoo.names())


@pytest.mark.slow
@pytest.mark.parametrize("processor", hashing.PROCESSORS)
def test_a_small_model_is_scheduled_as_the_file_says(
    processor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashing, "BLOCKS", tmp_path)
    monkeypatch.setattr(hashing, "MODELS", tmp_path)
    found = {processor: hashing.hashes_of(hashing.Work(SMALL_MODEL, processor, is_fresh=True))}
    assert found[processor]
    assert hashing.differences(hashing.read_file(), found, [SMALL_MODEL]) == []
