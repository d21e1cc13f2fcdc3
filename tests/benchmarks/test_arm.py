from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.benchmarks.scripts import script
from tests.counting.test_comparison import count
from tvm_fusionx import zoo
from tvm_fusionx.counting.count import Count

arm = script("arm")


def side(instructions: int, error: float | None) -> dict[str, Any]:
    cycles = dict.fromkeys(arm.MEASURES[1:], 2 * instructions)
    return {
        "version": "1",
        "error": error,
        "total": {"instructions": instructions, "cycles": cycles},
    }


def result(model: str, **sides: dict[str, Any]) -> dict[str, Any]:
    return {"model": model, "sides": sides, "problems": {}}


def test_ours_is_compared_with_the_best_that_computed_the_same() -> None:
    row = result("m", fusionx=side(90, 1e-6), ort=side(100, 1e-7), mnn=side(50, 0.5))
    assert arm.ratio_of(row, "instructions") == (0.9, "ort")
    assert arm.ratio_of(row, "cortex-a55") == (0.9, "ort")
    assert (
        arm.ratio_of(result("m", fusionx=side(1, 0.0), mnn=side(1, None)), "instructions") is None
    )


def test_the_table_ends_in_geometric_means() -> None:
    rows = [
        result("a", fusionx=side(50, 0.0), ort=side(100, 0.0)),
        result("b", fusionx=side(200, 0.0), ncnn=side(100, 0.0)),
        result("c", fusionx=side(7_000_000, None)),
        result("d", ort=side(1, 0.0)),
    ]
    lines = arm.table(rows).splitlines()
    assert len(lines) == 6
    assert "0.500" in lines[2]
    assert "other size" in lines[4]
    assert lines[-1].startswith("| geometric mean |  | 1.000 |")


def test_a_narrow_kind_is_compared_with_float32_and_by_its_own_tolerance() -> None:
    rows = [result("a", fusionx=side(60, 4e-3), mnn=side(120, 4e-3))]
    floats = [result("a", fusionx=side(100, 0.0)), result("b", fusionx=side(1, 0.0))]
    head, _, line, means = arm.table(rows, arm.FLOAT16, floats).splitlines()
    assert line.startswith("| a | 0.0 | 0.600 | 0.500 |")
    assert means.startswith("| geometric mean |  |  | 0.500 |")
    assert len({text.count("|") for text in (head, line, means)}) == 1
    # Of float32 an error of 4e-3 is another computation.
    assert arm.table(rows).splitlines()[2].startswith("| a | 0.0 | - |")
    assert arm.over_float(result("c", fusionx=side(1, 0.0)), floats) == "-"


def test_what_is_there_is_not_counted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def counted(name: str, *_: Any, with_caches: bool) -> Count:
        assert with_caches
        done.append(name)
        if name == "mnn":
            raise RuntimeError("no such operator")
        return count(name, 100, 60.0, [1.0])

    monkeypatch.setattr(arm, "count_side", counted)
    monkeypatch.setattr(arm, "check_sides", lambda sides: None)
    monkeypatch.setattr(arm, "reference", lambda model, inputs, as_written: np.array([1.0]))
    monkeypatch.setattr(zoo, "export", lambda name, path: SimpleNamespace(shapes={}))
    monkeypatch.setattr(zoo, "sample_inputs", lambda exported: {})
    words = ["minilm", "--results", str(tmp_path), "--sides", "fusionx,mnn"]
    arm.main(words)
    arm.main(words)
    assert done == ["fusionx", "mnn"]
    arm.main([*words, "--again", "mnn"])
    assert done == ["fusionx", "mnn", "mnn"]
    kept = json.loads((tmp_path / arm.CORE / "minilm.json").read_text())
    assert kept["sides"]["fusionx"]["error"] == 0.0
    assert kept["problems"] == {"mnn": "no such operator"}
    arm.main([*words, "--kind", "float16"])
    assert done[3:] == ["fusionx", "mnn"]
    assert (tmp_path / f"{arm.CORE}-float16" / "minilm.json").is_file()
    assert {*arm.MODELS, *arm.NARROW_MODELS} <= set(zoo.names())


def test_what_own_tools_make_is_compared_with_the_float_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reference(model: Any, inputs: Any, *, as_written: bool = False) -> np.ndarray:
        return np.array([2.0 if as_written else 4.0])

    def counted(side: str, name: str, floats: Any, *_: Any) -> Count:
        assert floats.name == f"{name}.onnx"
        return count(side, 100, 60.0, [5.0])

    monkeypatch.setattr(arm, "count_side", lambda side, *_, **__: count(side, 90, 50.0, [2.5]))
    monkeypatch.setattr(arm, "count_own_tool", counted)
    monkeypatch.setattr(arm, "check_sides", lambda sides: None)
    monkeypatch.setattr(arm, "reference", reference)
    monkeypatch.setattr(zoo, "export", lambda name, path: SimpleNamespace(shapes={}))
    monkeypatch.setattr(zoo, "sample_inputs", lambda exported: {})
    monkeypatch.setitem(
        sys.modules, "int8_models", SimpleNamespace(quantize=lambda out, name: out / "q.onnx")
    )
    arm.main(["minilm", "--results", str(tmp_path), "--kind", "int8", "--sides", "ort,litert-int8"])
    kept = json.loads((tmp_path / f"{arm.CORE}-int8" / "minilm.json").read_text())
    errors = {side: each["error"] for side, each in kept["sides"].items()}
    assert errors == {"ort": 0.25, "litert-int8": 0.25}
