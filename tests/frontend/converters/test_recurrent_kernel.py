"""Recurrent layers of ONNX as one kernel: ONNX Runtime's numbers, and why some are unrolled."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest

import tvm_fusionx as fx
from tests.frontend.converters.test_recurrent import GATES, model_of, operands
from tests.frontend.converters.test_recurrent_activations import layer_in
from tests.frontend.onnx_nodes import assert_close
from tests.relay_modules import TARGET
from tvm_fusionx.report.bench.plain_tvm import run_once

onnxruntime = pytest.importorskip("onnxruntime")


def _random(seed: int) -> tuple[str, list[Any], dict[str, Any]]:
    """Return operator, operands (X first) and attributes of a random layer."""
    draw = np.random.default_rng(seed)
    kind = str(draw.choice(list(GATES)))
    direction = str(draw.choice(["forward", "reverse", "bidirectional"]))
    directions = 2 if direction == "bidirectional" else 1
    steps, batch, features = (int(draw.integers(low, 9)) for low in (2, 1, 1))
    hidden = int(draw.choice([2, 7, 16, 20, 40]))
    rows = GATES[kind] * hidden

    def floats(*shape: int) -> Any:
        return draw.standard_normal(shape).astype("float32")

    state = (directions, batch, hidden)
    arrays = [
        floats(steps, batch, features),
        floats(directions, rows, features),
        floats(directions, rows, hidden) / np.float32(np.sqrt(hidden)),
        floats(directions, 2 * rows) if draw.random() < 0.7 else None,
        # ONNX Runtime gives numbers that were never written where no sequence has a step.
        draw.integers(1, steps + 1, batch).astype("int32") if draw.random() < 0.5 else None,
        floats(*state) if draw.random() < 0.5 else None,
    ]
    if kind == "LSTM":
        arrays.append(floats(*state) if draw.random() < 0.5 else None)
    attributes: dict[str, Any] = {"direction": direction, "hidden_size": hidden}
    if kind == "GRU":
        attributes["linear_before_reset"] = int(draw.integers(0, 2))
    if draw.random() < 0.3:
        attributes["clip"] = float(draw.uniform(0.5, 2.0))
    return kind, arrays, attributes


def _assert_as_onnxruntime(seed: int) -> None:
    kind, arrays, attributes = _random(seed)
    model = model_of(kind, arrays, **attributes)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    feeds = {f"x{at}": array for at, array in enumerate(arrays) if array is not None}
    constants = {name: feeds[name] for name in ("x1", "x2", "x3") if name in feeds}
    mod, params = fx.from_onnx(model, constants=constants)
    library = fx.build(mod, TARGET, params=params)
    taken = {name: array for name, array in feeds.items() if name not in constants}
    found = run_once(library, taken)
    for at, (mine, theirs) in enumerate(zip(found, session.run(None, feeds), strict=True)):
        assert_close(mine, theirs, f"{kind} {attributes} output {at}")


@pytest.mark.parametrize("seed", range(3))
def test_random_layers_agree_with_onnxruntime(seed: int) -> None:
    _assert_as_onnxruntime(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 8))
def test_more_random_layers_agree_with_onnxruntime(seed: int) -> None:
    _assert_as_onnxruntime(seed)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "reason"),
    [
        ("LSTM", slice(0, 8), {}, "peepholes"),
        (
            "RNN",
            slice(0, 3),
            {"direction": "bidirectional", "activations": ["Tanh", "Relu"]},
            "its directions have different functions",
        ),
    ],
)
def test_what_is_unrolled_says_why(
    kind: str,
    inputs: slice,
    attributes: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    directions = 2 if attributes else 1
    with caplog.at_level(logging.INFO):
        assert layer_in(model_of(kind, operands(kind, directions)[inputs], **attributes)) is None
    assert reason in caplog.text


def test_one_step_is_unrolled() -> None:
    arrays = operands("GRU", 1)[:3]
    assert layer_in(model_of("GRU", [arrays[0][:1], *arrays[1:]])) is None
    assert layer_in(model_of("GRU", arrays)) is not None


def test_doubles_are_unrolled(caplog: pytest.LogCaptureFixture) -> None:
    arrays = [each.astype("float64") for each in operands("RNN", 1)[:3]]
    with caplog.at_level(logging.INFO):
        assert layer_in(model_of("RNN", arrays)) is None
    assert "its data is float64" in caplog.text
