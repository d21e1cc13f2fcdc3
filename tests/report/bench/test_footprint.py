from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, module, var
from tests.tiny_models import TARGET
from tvm_fusionx.report.bench.footprint import (
    PlannedBytes,
    footprint,
    planned_bytes,
    process_memory,
    save_inputs,
)
from tvm_fusionx.report.bench.plain_tvm import build_plain

ROWS, FEATURES = 4, 16
FLOAT_BYTES = 4
WEIGHTS = FEATURES * FEATURES


@pytest.fixture(scope="module")
def library() -> Any:
    product = relay.nn.dense(var("x", ROWS, FEATURES), const(FEATURES, FEATURES))
    return build_plain(module(relay.nn.softmax(product)), TARGET)


def test_the_plan_tells_weights_from_activations(library: Any) -> None:
    planned = planned_bytes(library)
    assert planned.weights >= FLOAT_BYTES * WEIGHTS
    # Input, product and output; the pool may share memory between the first and the last.
    assert 2 <= planned.activations / (FLOAT_BYTES * ROWS * FEATURES) <= 3
    assert planned.workspace is not None
    assert planned.to_json() == {
        "weights": planned.weights,
        "activations": planned.activations,
        "workspace": planned.workspace,
    }
    assert PlannedBytes(1, 2).to_json() == {"weights": 1, "activations": 2}


def test_the_workspace_is_what_a_kernel_allocates() -> None:
    product = relay.nn.dense(var("x", 256, 256), const(256, 256))
    library = build_plain(module(relay.nn.softmax(product)), TARGET)
    workspace = planned_bytes(library).workspace
    # Softmax keeps at least the sums of its rows.
    assert workspace is not None
    assert workspace >= 256 * FLOAT_BYTES


@pytest.mark.slow
def test_a_fresh_process_loads_runs_and_tells_its_memory(library: Any, tmp_path: Path) -> None:
    inputs = {"x": np.ones((ROWS, FEATURES), "float32")}
    code, memory = footprint({"tvm": library}, (), tmp_path / "none.onnx", inputs, 1)
    assert code["tvm"] > 1000
    assert 0 < memory["tvm"]["before"] <= memory["tvm"]["peak"]


@pytest.mark.slow
def test_the_memory_of_the_measuring_process_is_not_counted(library: Any, tmp_path: Path) -> None:
    inputs = {"x": np.ones((ROWS, FEATURES), "float32")}
    _, small = footprint({"tvm": library}, (), tmp_path / "none.onnx", inputs, 1)
    held = np.ones(1 << 28, "uint8")
    _, again = footprint({"tvm": library}, (), tmp_path / "none.onnx", inputs, 1)
    assert again["tvm"]["peak"] < small["tvm"]["peak"] + held.nbytes // 2


@pytest.mark.slow
def test_a_process_that_fails_says_so_and_has_no_memory(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    inputs = {"x": np.ones(3, "float32")}
    missing = tmp_path / "missing.onnx"
    save_inputs(inputs, tmp_path)
    with pytest.raises(RuntimeError, match=r"memory of ort failed: .*missing\.onnx"):
        process_memory("ort", missing, tmp_path, 1)
    assert footprint({}, ("ort",), missing, inputs, 1) == ({}, {})
