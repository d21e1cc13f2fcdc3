"""The table of the layers, and the file."""

from __future__ import annotations

import json
from pathlib import Path

import onnx

from tests.reuse_models import CHOICES, network
from tvm_fusionx.compress.similar.reuse import with_choices
from tvm_fusionx.compress.similar.reused_model import COMPUTES, REUSES, ReusedModel, ReuseRow
from tvm_fusionx.reuse.choice import ATTRIBUTE

ROWS = (
    *(
        ReuseRow(
            "conv1", REUSES, "", 288, 27, 16, 9, 4, 16, 0.75, 0.25, 0.125, 50, 30, 20, 150, 0.5
        ),
    ),
    ReuseRow("fc", COMPUTES, "its weights are not constant"),
)


def _made() -> ReusedModel:
    model = with_choices(network(), CHOICES, CHOICES)
    return ReusedModel(model, CHOICES, ROWS, "top1", 0.9, 0.89, 0.01, 0.01, 0.02, 3, "llvm")


def test_the_table_tells_counts_and_reasons() -> None:
    lines = _made().text().splitlines()
    assert lines[1].split() == ["conv1", "9", "4", "75.0%", "25.0%", "0.125", "1.50", "5.00e-01"]
    assert lines[2].split(maxsplit=8)[-1] == "its weights are not constant"
    assert lines[3] == "1 of 2 layers reuse products; 3 trials"
    assert "exact 0.9, this model 0.89; costs 0.01 of 0.02 allowed" in lines[4]
    assert lines[5] == "outputs moved by 0.01 of their squares"


def test_as_json_and_as_a_file(tmp_path: Path) -> None:
    made = _made()
    told = json.loads(json.dumps(made.to_json()))
    assert told["choices"] == sorted(CHOICES)
    assert [row["gain"] for row in told["layers"]] == [1.5, None]
    path = tmp_path / "reused.onnx"
    made.save(path)
    read = onnx.load(path)
    assert [prop.key for prop in read.metadata_props] == [ATTRIBUTE]
    onnx.checker.check_model(read)
