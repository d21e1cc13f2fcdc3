from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.tiny_models import TARGET, perceptron, save
from tvm_fusionx.inputs import inputs_of, random_inputs
from tvm_fusionx.report.bench import kept_build
from tvm_fusionx.report.bench.footprint import planned_bytes, save_for_a_process
from tvm_fusionx.report.bench.plain_tvm import build_plain, run_once
from tvm_fusionx.report.peers.conversions import Conversions
from tvm_fusionx.schedules import resolve_target


def test_a_kept_build_is_not_built_again_and_computes_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mod, params = fx.from_onnx(save(perceptron(), tmp_path))
    inputs = random_inputs(inputs_of(mod, params))
    target = resolve_target(TARGET)
    fresh = build_plain(mod, target, params)
    kept_build.kept_plain(Conversions(tmp_path / "kept"), mod, target, params)

    def build(*_: object, **__: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr("tvm_fusionx.report.bench.plain_tvm.build_plain", build)
    conversions = Conversions(tmp_path / "kept")
    kept = kept_build.kept_plain(conversions, mod, target, params)
    assert conversions.spared_s > 0
    for ours, wanted in zip(run_once(kept, inputs), run_once(fresh, inputs), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    assert kept.get_graph_json() == fresh.get_graph_json()
    assert planned_bytes(kept) == planned_bytes(fresh)
    # As a benchmark does for the process whose memory it measures.
    save_for_a_process(kept, inputs, tmp_path / "again")
    again = kept_build.load_library(tmp_path / "again", target)
    for ours, wanted in zip(run_once(again, inputs), run_once(fresh, inputs), strict=True):
        np.testing.assert_array_equal(ours, wanted)


def test_other_constants_are_another_build(tmp_path: Path) -> None:
    target, conversions = resolve_target(TARGET), Conversions(tmp_path)
    results = []
    for value in (1.0, 2.0):
        x = relay.var("x", shape=(4,))
        body = relay.add(x, relay.const(np.full(4, value, "float32")))
        mod = tvm.IRModule.from_expr(relay.Function([x], body))
        library = kept_build.kept_plain(conversions, mod, target)
        results.append(run_once(library, {"x": np.zeros(4, "float32")})[0][0])
    assert results == [1.0, 2.0]


def test_other_names_are_another_build(tmp_path: Path) -> None:
    target, conversions = resolve_target(TARGET), Conversions(tmp_path)
    results = []
    for names in ("ab", "ba"):
        first, second = (relay.var(name, shape=(4,)) for name in names)
        mod = tvm.IRModule.from_expr(relay.Function([first, second], first - second))
        library = kept_build.kept_plain(conversions, mod, target)
        inputs = {"a": np.full(4, 3.0, "float32"), "b": np.ones(4, "float32")}
        results.append(run_once(library, inputs)[0][0])
    assert results == [2.0, -2.0]
