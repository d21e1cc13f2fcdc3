from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.clips import drop_clips


def _model(high: float, zero: int, *, readers: str = "", clip: str = "Clip") -> Any:
    layers = Layers(2, 64)
    bounds = (
        [layers.constant(np.array(each, "float32")) for each in (0, 6)] if clip != "Relu" else []
    )
    clipped = layers.add(clip, "x", *bounds)
    scale = layers.constant(np.array(high / 255, "float32"))
    point = layers.constant(np.array(zero, "uint8"))
    integers = layers.add("QuantizeLinear", clipped, scale, point)
    result = layers.add("DequantizeLinear", integers, scale, point)
    if readers:
        result = layers.add("Add", result, layers.add(readers, clipped))
    return layers.model(result)


def _run(model: Any) -> np.ndarray:
    x = np.linspace(-9, 9, 128, dtype="float32").reshape(2, 64)
    result: np.ndarray = ReferenceEvaluator(model).run(None, {"x": x})[0]
    return result


@pytest.mark.parametrize(("high", "clip"), [(6.0, "Clip"), (4.5, "Clip"), (80.0, "Relu")])
def test_a_clip_that_saturation_does_goes_and_numbers_stay(high: float, clip: str) -> None:
    model = _model(high, 0, clip=clip)
    before = _run(model)
    assert drop_clips(model) == 1
    assert (_run(model) == before).all()
    assert all(node.op_type != clip for node in model.graph.node)


@pytest.mark.parametrize(
    ("high", "zero", "readers"), [(6.5, 0, ""), (6.0, 3, ""), (6.0, 0, "Sigmoid")]
)
def test_a_clip_that_does_more_or_that_others_read_stays(
    high: float, zero: int, readers: str
) -> None:
    model = _model(high, zero, readers=readers)
    assert drop_clips(model) == 0


def test_a_clip_that_is_an_output_stays() -> None:
    layers = Layers(2, 8)
    y = layers.add("Relu", "x")
    assert drop_clips(layers.model(y)) == 0
