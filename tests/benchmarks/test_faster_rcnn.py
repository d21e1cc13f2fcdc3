from __future__ import annotations

import math

import numpy as np
import pytest

import tvm_fusionx as fx
from tests.benchmarks.scripts import script
from tests.data_models import by_onnxruntime
from tests.faster_rcnn import SIDE, faster_rcnn

faster_rcnn_script = script("faster_rcnn")


def test_differences_are_relative_and_shapes_count() -> None:
    wanted = np.array([2.0, -4.0], "float32")
    difference = faster_rcnn_script.difference
    assert difference(wanted + np.float32(0.5), wanted) == pytest.approx(0.125)
    assert math.isinf(difference(wanted[:1], wanted))
    assert math.isinf(difference(wanted.astype("float64"), wanted))
    assert difference(wanted[:0], wanted[:0]) == 0.0


@pytest.mark.slow
def test_the_network_is_static_up_to_its_proposals_and_the_data_decides_twice() -> None:
    model = faster_rcnn()
    counts = set()
    for seed in range(3):
        picture = np.random.default_rng(seed).random((1, 3, SIDE, SIDE)).astype("float32")
        boxes, labels, scores = by_onnxruntime(model, {"picture": picture})
        assert boxes.shape == (len(labels), 4)
        assert len(scores) == len(labels) > 0
        counts.add(len(labels))
    assert len(counts) > 1
    mod, _ = fx.from_onnx(model)
    outlined = fx.passes.OutlineStatic()(mod)
    functions = {
        variable.name_hint: str(func.body) for variable, func in outlined.functions.items()
    }
    static = [text for name, text in functions.items() if "_static_" in name]
    assert any(text.count("nn.conv2d") >= 9 for text in static)
    assert len(static) > 2
    assert functions["main"].count("vision.roi_align") == 2
    assert functions["main"].count("fusionx.first_rows") >= 4
