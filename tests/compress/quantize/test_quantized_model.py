from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.compress.quantize.small_networks import residual
from tvm_fusionx.compress.quantize.quantized_model import LayerRow, QuantizedModel, curve_of
from tvm_fusionx.errors import OutputFileError


def _result(**changed: Any) -> QuantizedModel:
    rows = (
        LayerRow("first", "Conv", "layer", "int8", method="mse", drop=0.001),
        LayerRow("last", "Gemm", "layer", "float", "kept by the guard: alone it costs 2.00e-01"),
    )
    fields: dict[str, Any] = {
        "model": residual(),
        "layers": rows,
        "judged_by": "top1",
        "float_score": 0.9,
        "score": 0.895,
        "full_score": 0.7,
        "drop": 0.005,
        "max_drop": 0.01,
        "trials": 7,
        "notes": ("a note",),
    }
    return QuantizedModel(**{**fields, **changed})


def test_the_table_has_a_row_for_each_layer() -> None:
    lines = _result().text().splitlines()
    assert lines[1].split() == ["first", "Conv", "int8", "mse", "1.00e-03"]
    assert lines[2].endswith("kept by the guard: alone it costs 2.00e-01")
    assert lines[3] == "1 of 2 layers in integers; 7 trials"
    assert lines[4] == (
        "top1: float 0.9, this model 0.895, all in integers 0.7; costs 0.005 of 0.01 allowed"
    )
    assert lines[5] == "a note"
    assert "float ms" not in lines[0]


def test_times_are_shown_where_there_are_some() -> None:
    slow = LayerRow("a" * 60, "Conv", "layer", "float", "slow", float_ms=1.0, int8_ms=2.5)
    text = _result(layers=(slow,)).text().splitlines()
    assert text[0].split()[-4:] == ["float", "ms", "int8", "ms"]
    assert text[1].split()[-3:] == ["1.000", "2.500", "slow"]
    assert text[1].startswith("…aaa")


def test_json_has_all_but_the_model() -> None:
    found = json.loads(json.dumps(_result(max_drop=math.inf).to_json(), allow_nan=False))
    assert "model" not in found
    assert found["max_drop"] is None
    assert found["layers"][1]["stored"] == "float"
    assert [row.name for row in _result().kept] == ["last"]


def test_saved_whole_or_not_at_all(tmp_path: Path) -> None:
    _result().save(tmp_path / "q.onnx")
    assert onnx.load(tmp_path / "q.onnx") == _result().model
    with pytest.raises(OutputFileError):
        _result().save(tmp_path / "none" / "q.onnx")


def test_the_curve_is_by_the_number_of_layers() -> None:
    trials = {frozenset("ab"): 0.2, frozenset("a"): 0.1}
    assert curve_of(trials) == ((1, 0.1), (2, 0.2))
