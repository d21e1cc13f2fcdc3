from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

import tvm_fusionx as fx
from tests.data_models import floats, made
from tests.tiny_models import TARGET
from tvm_fusionx.report.bench import machine_sides
from tvm_fusionx.report.bench.bench_result import BenchResult
from tvm_fusionx.report.bench.footprint import footprint
from tvm_fusionx.report.bench.machine_sides import MachineSides, build_machine_sides, count_launches
from tvm_fusionx.schedules import resolve_target

ROWS, FEATURES, UNITS = 4, 8, 6


def _model() -> object:
    """Return a product, its softmax, and the places where it is large: x [4, 8] to [2, ?]."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Softmax", ["product"], ["y"]),
        helper.make_node("Greater", ["y", "limit"], ["flags"]),
        helper.make_node("NonZero", ["flags"], ["places"]),
    ]
    weights = {"w": floats(FEATURES, UNITS), "limit": np.float32(0.2)}
    return made(nodes, {"x": floats(ROWS, FEATURES)}, ["places"], weights)


@pytest.fixture(scope="module")
def sides() -> MachineSides:
    mod, params = fx.from_onnx(_model())
    return build_machine_sides(
        mod,
        resolve_target(TARGET),
        params,
        {},
        ("unfused",),
        tuned={"fusionx-tuned": lambda *_: (None, {})},
    )


def test_what_is_asked_for_is_built_and_what_tunes_is_told(sides: MachineSides) -> None:
    assert set(sides.libraries) == set(sides.prepare_s) == {"fusionx", "unfused"}
    assert "virtual machine" in sides.errors["fusionx-tuned"]
    said = sides.description()
    assert said["kernels"]["tvm"] is None
    assert said["kernels"]["unfused"] > said["kernels"]["fusionx"] > 0
    assert said["weight_bytes"] >= 4 * FEATURES * UNITS


def test_what_computes_shapes_launches_nothing(sides: MachineSides) -> None:
    launched = sides.ours.executable().bytecode.count("# invoke_packed")
    assert 0 < count_launches(sides.ours) < launched


def test_code_and_a_process_of_its_own_are_measured(sides: MachineSides, tmp_path: object) -> None:
    libraries = {"fusionx": sides.ours}
    given = {"x": floats(ROWS, FEATURES)}
    code, memory = footprint(libraries, (), tmp_path, given, 1)  # type: ignore[arg-type]
    assert code["fusionx"] > 0
    assert memory["fusionx"]["before"] <= memory["fusionx"]["peak"]


def test_a_whole_benchmark_has_outputs_equal_and_rows_of_kernels(
    sides: MachineSides, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tvm_fusionx.report.bench.bench.build_machine_sides", lambda *_, **__: sides
    )
    result: BenchResult = fx.bench(_model(), TARGET, ("unfused", "ort"), threads=1, repeat=2)
    assert set(result.latency_ms) == {"fusionx", "unfused", "ort"}
    assert result.max_rel_err == 0
    assert sides.block_times("model", (), {"x": floats(ROWS, FEATURES)})


def test_a_side_that_tvm_cannot_build_has_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(machine_sides, "build_plain_machine", fail)
    monkeypatch.setattr(machine_sides, "build_for_machine", lambda *_, **__: object())
    found = build_machine_sides(None, resolve_target(TARGET), {}, {}, ("tvm",))
    assert "no such thing" in found.errors["tvm"]
    assert set(found.libraries) == {"fusionx"}
