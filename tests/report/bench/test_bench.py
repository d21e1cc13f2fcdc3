from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tvm_fusionx as fx
from tests.tiny_models import FEATURES, ROWS, TARGET, lookup, perceptron, save
from tvm_fusionx.errors import InputError, ShapeError
from tvm_fusionx.report import peers
from tvm_fusionx.report.bench.bench import describe_device
from tvm_fusionx.report.bench.bench_result import BenchResult
from tvm_fusionx.report.bench.plain_tvm import build_plain

# The schema is a contract: other programs read it.
KEYS = {
    "model",
    "target",
    "threads",
    "device",
    "versions",
    "ops",
    "kernels",
    "intermediate_bytes",
    "weight_bytes",
    "max_rel_err",
    "cosine",
    "import_s",
    "build_s",
    "latency_ms",
    "errors",
    "prepare_s",
    "planned_bytes",
    "code_bytes",
    "memory_bytes",
    "blocks",
    "peer_kernels",
    "rel_err",
    "sustained_ms",
    "loaded_ms",
    "tuning",
    "load_s",
    "first_run_s",
    "remarks",
}
SCHEMA_PAGE = Path(__file__).resolve().parents[3] / "docs" / "bench_schema.md"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> BenchResult:
    path = save(perceptron(), tmp_path_factory.mktemp("bench"), "perceptron.onnx")
    return fx.bench(path, TARGET, ("tvm", "unfused", "ort"), threads=1, repeat=3)


def test_the_schema_has_exactly_its_keys_and_each_is_documented(result: BenchResult) -> None:
    written = result.to_json()
    assert set(written) == KEYS
    page = SCHEMA_PAGE.read_text(encoding="utf-8")
    assert [key for key in KEYS if f"`{key}`" not in page] == []
    json.dumps(written)


def test_every_side_has_a_latency_and_none_is_lost(result: BenchResult) -> None:
    assert result.errors == {}
    assert set(result.latency_ms) == {"fusionx", "tvm", "unfused", "ort"}
    assert all(
        0 < latency.p10 <= latency.median <= latency.p90 for latency in result.latency_ms.values()
    )
    assert {latency.n for latency in result.latency_ms.values()} == {3}


def test_what_is_known_of_the_model_is_right(result: BenchResult) -> None:
    assert result.model == "perceptron"
    assert result.ops == 5
    assert set(result.kernels) == {"fusionx", "tvm", "unfused"}
    assert result.kernels["unfused"] == 5
    assert result.kernels["fusionx"] <= result.kernels["tvm"] <= 5  # type: ignore[operator]
    assert result.intermediate_bytes["fusionx"] <= result.intermediate_bytes["tvm"]  # type: ignore[operator]
    assert result.weight_bytes == 4 * (8 * FEATURES + 8 + 8 * 8)
    assert result.max_rel_err <= 1e-5
    assert result.cosine == pytest.approx(1)
    assert result.threads == 1
    assert {"tvm_fusionx", "tvm", "ort"} <= set(result.versions)


def test_what_each_side_took_to_get_ready_and_what_is_planned_is_kept(result: BenchResult) -> None:
    assert set(result.prepare_s) == {"fusionx", "tvm", "unfused", "ort"}
    assert result.prepare_s["fusionx"] == result.build_s
    assert set(result.planned_bytes) == {"fusionx", "tvm", "unfused"}
    for planned in result.planned_bytes.values():
        assert planned["weights"] >= 4 * (8 * FEATURES + 8 + 8 * 8)
        assert planned["activations"] >= 4 * ROWS * (FEATURES + 8)
    assert result.code_bytes == result.memory_bytes == {}
    assert result.blocks == []
    assert result.sustained_ms == result.tuning == result.loaded_ms == {}
    assert result.load_s == result.first_run_s == {}
    assert result.remarks == []


def test_how_far_each_side_is_from_the_reference_is_kept(result: BenchResult) -> None:
    assert set(result.rel_err) == {"fusionx", "tvm", "unfused", "ort"}
    assert result.rel_err["fusionx"] == result.max_rel_err
    assert max(result.rel_err.values()) <= 1e-5


def test_wrong_outputs_of_ours_are_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = [np.full((ROWS, 8), np.nan, "float32")]
    monkeypatch.setattr("tvm_fusionx.report.bench.bench._reference", lambda *_: nothing)
    result = fx.bench(perceptron(), TARGET, (), threads=1, repeat=1)
    assert "NaN" in result.errors["fusionx"]
    assert "fusionx" in result.latency_ms
    assert "fusionx" not in result.rel_err
    assert result.to_json()["max_rel_err"] is None
    assert result.cosine == 0


@pytest.mark.slow
def test_a_thorough_one_has_sizes_memory_and_blocks() -> None:
    result = fx.bench(perceptron(), TARGET, ("ort",), threads=1, repeat=1, thorough=True)
    assert result.errors == {}
    assert set(result.code_bytes) == {"fusionx"}
    assert result.code_bytes["fusionx"] > 1000
    assert set(result.memory_bytes) == {"fusionx", "ort"}
    for memory in result.memory_bytes.values():
        assert 0 < memory["before"] <= memory["peak"]
        assert 0 < memory["after"] <= memory["peak"]
    assert len(result.blocks) == result.kernels["fusionx"]
    assert sum(block["flops"] or 0 for block in result.blocks) >= 2 * ROWS * 8 * (FEATURES + 8)
    # Two products with their activations, and softmax, at the most.
    assert 2 <= result.peer_kernels["ort"] <= 4
    assert all(block["us"] > 0 and block["bytes"] > 0 for block in result.blocks)


def test_a_peer_that_is_missing_or_fails_is_reported_with_its_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def prepare(name: str, *_: object) -> object:
        if name == "mnn":
            raise ImportError("No module named 'MNN'")
        run = lambda: [np.zeros((ROWS, 8), "float32")]  # noqa: E731
        return peers.PreparedPeer(name, "1.0", run, list)

    monkeypatch.setattr("tvm_fusionx.report.bench.bench.prepare_peer", prepare)
    result = fx.bench(perceptron(), TARGET, ("mnn", "ncnn"), threads=1, repeat=1)
    assert set(result.latency_ms) == {"fusionx", "ncnn"}
    assert result.errors["mnn"] == "ImportError: No module named 'MNN'"
    assert "outputs are 1 off" in result.errors["ncnn"]
    assert result.kernels["tvm"] is None


def test_sides_may_be_tuned_and_run_for_long() -> None:
    def build(
        mod: Any, target: Any, params: Any, inputs: Any, kept: Any
    ) -> tuple[Any, dict[str, Any]]:
        assert kept.root is None
        assert set(inputs) == {"x"}
        return build_plain(mod, target, params), {"trials": 3}

    def fails(*_: Any) -> Any:
        raise RuntimeError("nothing could be measured")

    stages: list[str] = []
    result = fx.bench(
        perceptron(),
        TARGET,
        (),
        threads=1,
        repeat=1,
        sustained=0.01,
        tuned={"tvm-metaschedule": build, "fusionx-tuned": fails},
        on_stage=stages.append,
    )
    assert set(result.latency_ms) == set(result.sustained_ms) == {"fusionx", "tvm-metaschedule"}
    assert result.tuning == {"tvm-metaschedule": {"trials": 3}}
    assert result.errors == {"fusionx-tuned": "RuntimeError: nothing could be measured"}
    assert "running fusionx for 0.01 s" in stages
    assert "timing: turn 1 of 1" in stages
    assert json.loads(json.dumps(result.to_json()))["sustained_ms"]["fusionx"]["n"] >= 1


def test_given_inputs_are_checked_and_used() -> None:
    inputs = {"ids": np.array([1, 2, 3]), "scale": np.ones((3, 6), "float32")}
    result = fx.bench(lookup(), TARGET, (), threads=1, repeat=1, inputs=inputs)
    assert result.max_rel_err == 0
    with pytest.raises(InputError, match="'ids'"):
        fx.bench(lookup(), TARGET, (), inputs={"scale": inputs["scale"]})


def test_an_unknown_side_is_refused_before_any_work() -> None:
    with pytest.raises(InputError, match="'tflite'"):
        fx.bench("missing.onnx", TARGET, ("tvm", "tflite"))


def test_a_number_of_runs_below_one_is_refused_before_any_work() -> None:
    with pytest.raises(InputError, match="repeat"):
        fx.bench("missing.onnx", TARGET, (), repeat=0)


def test_generations_of_a_processor_under_one_name_are_told_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Results of two machines must never be taken for those of one."""
    monkeypatch.setattr("tvm_fusionx.report.bench.bench.processor_name", lambda: "AMD EPYC")
    told = []
    for kind in ("znver2", "znver3"):
        monkeypatch.setattr("tvm_fusionx.report.bench.bench.DEFAULT_TARGET", f"llvm -mcpu={kind}")
        told.append(describe_device().partition(",")[0])
    assert told == ["AMD EPYC (znver2)", "AMD EPYC (znver3)"]


def test_a_dynamic_model_needs_a_shape() -> None:
    model = perceptron(batch="n")
    with pytest.raises(ShapeError):
        fx.bench(model, TARGET, ())
    result = fx.bench(model, TARGET, ("ort",), threads=1, repeat=1, shape={"x": (2, FEATURES)})
    assert set(result.latency_ms) == {"fusionx", "ort"}
