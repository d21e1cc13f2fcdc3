from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from tvm_fusionx.errors import WrongResultError
from tvm_fusionx.report.verify.difference import Difference
from tvm_fusionx.report.verify.verdict import BlockVerdict, VerifyReport

NEAR = Difference(1e-6, 1e-6, 1.0, 0, 0, 0)
FAR = Difference(0.5, 0.25, 0.9, 1, 0, 1)
RIGHT = VerifyReport(
    ok=True,
    tolerance=1e-5,
    reference="ONNX Runtime",
    end_to_end=(NEAR, NEAR),
    blocks=(
        BlockVerdict("first", ("conv", "relu"), NEAR, True),
        BlockVerdict("last", (), NEAR, True),
    ),
)
WRONG = dataclasses.replace(
    RIGHT,
    ok=False,
    end_to_end=(NEAR, FAR),
    blocks=(RIGHT.blocks[0], BlockVerdict("last", (), FAR, False)),
)
ASTRAY = dataclasses.replace(RIGHT, ok=False, end_to_end=(FAR,), allowance="it may be rounded")


def test_a_right_report_says_what_it_was_held_to() -> None:
    assert RIGHT.summary().startswith("All 2 blocks are within 1e-05, and all 2 outputs within")
    assert RIGHT.first_wrong is None
    RIGHT.raise_if_wrong()


def test_blocks_that_store_16_bits_are_held_to_a_step() -> None:
    stored = dataclasses.replace(RIGHT.blocks[1], tolerance=2.0**-10)
    report = dataclasses.replace(RIGHT, blocks=(RIGHT.blocks[0], stored))
    assert "blocks are within 1e-05 or a step of their type, 0.00098, and" in report.summary()
    assert [block["tolerance"] for block in report.to_json()["blocks"]] == [1e-5, 2.0**-10]


def test_the_first_wrong_block_is_named_and_raised() -> None:
    assert WRONG.first_wrong is WRONG.blocks[1]
    assert WRONG.worst_end_to_end is FAR
    with pytest.raises(WrongResultError, match="Block last is the first wrong one"):
        WRONG.raise_if_wrong()


def test_an_error_before_fusion_is_not_blamed_on_a_block() -> None:
    assert "before fusion" in ASTRAY.summary()
    assert "; it may be rounded, though" in ASTRAY.summary()


def test_the_text_lists_the_worst_block_first() -> None:
    assert WRONG.text().splitlines()[1].startswith("WRONG last: max abs 0.5")
    assert str(WRONG) == WRONG.text()


def test_the_report_is_json(tmp_path: Path) -> None:
    WRONG.save_json(tmp_path / "report.json")
    read = json.loads((tmp_path / "report.json").read_text())
    assert (read["ok"], read["first_wrong"], read["allowance"]) == (False, "last", "")
    assert [row["operators"] for row in read["blocks"]] == [["conv", "relu"], []]
    assert [row["max_rel"] for row in read["end_to_end"]] == [NEAR.max_rel, FAR.max_rel]
