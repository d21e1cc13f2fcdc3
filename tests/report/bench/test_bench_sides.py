from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tvm_fusionx as fx
from tests.tiny_models import FEATURES, TARGET, lookup, perceptron, save
from tvm_fusionx.report.bench import bench_sides
from tvm_fusionx.report.bench.bench_sides import build_sides, count_operators, model_file, name_of
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.schedules import resolve_target


def test_what_was_asked_for_is_built_and_described() -> None:
    mod, params = fx.from_onnx(perceptron())
    stages: list[str] = []
    sides = build_sides(
        mod, resolve_target(TARGET), params, {}, ("unfused",), on_stage=stages.append
    )
    counted = [stage for stage in stages if ": scheduling" in stage]
    assert stages[0] == "building fusionx"
    assert counted[0] == "building fusionx: scheduling kernel 1 of 2"
    assert counted[-1] == "building unfused: scheduling kernel 5 of 5"
    assert set(sides.libraries) == set(sides.prepare_s) == {"fusionx", "unfused"}
    said = sides.description()
    assert said["kernels"] == {"fusionx": 2, "unfused": 5, "tvm": None}
    assert said["weight_bytes"] == 4 * (8 * FEATURES + 8 + 8 * 8)


def test_what_tunes_is_alone_and_what_builds_is_not(tmp_path: Path) -> None:
    mod, params = fx.from_onnx(perceptron())
    told: list[str] = []

    @contextmanager
    def alone() -> Iterator[None]:
        told.append("alone")
        yield
        told.append("together")

    def tune(*_: Any) -> tuple[Any, dict[str, Any]]:
        told.append("tuned")
        return "library", {"trials": 3}

    sides = build_sides(
        mod,
        resolve_target(TARGET),
        params,
        {},
        ("unfused",),
        tuned={"better": tune},
        conversions=Conversions(tmp_path, clock=lambda: 7.0),
        alone=alone,
        on_stage=told.append,
    )
    assert [word for word in told if not re.match("building .*: ", word)] == [
        "building fusionx",
        "building unfused",
        "building better",
        "alone",
        "tuned",
        "together",
    ]
    assert sides.libraries["better"] == "library"
    assert sides.tuning == {"better": {"trials": 3}}
    assert set(sides.prepare_s.values()) == {0.0}


def test_a_side_that_cannot_be_built_has_a_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("no schedule\nfor this target")

    monkeypatch.setattr(bench_sides, "kept_plain", fail)
    mod, params = fx.from_onnx(perceptron())
    sides = build_sides(mod, resolve_target(TARGET), params, {}, ("tvm",))
    assert set(sides.libraries) == {"fusionx"}
    assert sides.errors == {"tvm": "ValueError: for this target"}


def test_operators_are_counted_not_tuples_or_constants() -> None:
    mod, _ = fx.from_onnx(lookup())
    assert count_operators(mod) >= 2


def test_a_model_has_a_file_and_a_name(tmp_path: Path) -> None:
    path = save(perceptron(), tmp_path, "small.onnx")
    with model_file(path) as same:
        assert same == path
    with model_file(perceptron()) as made:
        assert made.read_bytes() == perceptron().SerializeToString()
    assert not made.exists()
    assert (name_of(path), name_of(perceptron())) == ("small", perceptron().graph.name)
