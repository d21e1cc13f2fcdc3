"""Other runtimes' sparse sides compute what the layer means."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest

from tests.benchmarks.scripts import script
from tests.relay_modules import REASSOCIATING

benchmark, sides = script("sparse"), script("sparse_sides")

LAYERS = {
    "dense": benchmark.Layer((3, 32), (48, 32), 4),
    "pixels": benchmark.Layer((1, 16, 6, 5), (32, 16, 1, 1), 4),
    "windows": benchmark.Layer((1, 16, 6, 5), (32, 16, 3, 3), 4),
}


@pytest.mark.parametrize("name", LAYERS)
def test_each_side_computes_the_layer(name: str) -> None:
    layer = LAYERS[name]
    draw = np.random.default_rng(1)
    weight = benchmark.pruned(draw.standard_normal(layer.weight).astype("float32"), layer.rate)
    x = draw.standard_normal(layer.data).astype("float32")
    model = benchmark.model_of(layer, weight)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = {"TVM sparse": sides.tvm_sparse(weight, x, 1, benchmark.TARGET)}
    if name == "dense":
        pytest.importorskip("openvino")
        pytest.importorskip("MNN")
        with sides.saved(model) as path:
            others, failures, versions = sides.peers(path, {"x": x}, 1)
            assert not failures
            assert others.keys() == versions.keys() == {"ONNX Runtime", "OpenVINO", "MNN"}
            found |= others
            off = {each: benchmark.differs(side, expected) for each, side in found.items()}
    else:
        off = {each: benchmark.differs(side, expected) for each, side in found.items()}
    assert max(off.values()) <= REASSOCIATING, off


def test_tvm_has_no_other_windows() -> None:
    x = np.zeros((1, 16, 6, 5), "float32")
    for kernel, strides in ((5, 1), (3, 2)):
        weight = np.ones((32, 16, kernel, kernel), "float32")
        assert sides.tvm_sparse(weight, x, strides, benchmark.TARGET) is None
    assert sides.tvm_sparse(np.ones((32, 16, 3, 3, 3)), x[:, :, None], 1, benchmark.TARGET) is None
