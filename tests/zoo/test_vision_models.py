"""The image classifiers: published sizes, and the exported file agrees with torch."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tvm_fusionx import zoo
from tvm_fusionx.zoo import catalog
from tvm_fusionx.zoo.weights import draw_weights

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
vision_models = pytest.importorskip("tvm_fusionx.zoo.vision_models")

REASSOCIATION = 1e-5  # float32 sums in another order, relative to the largest output


@pytest.mark.parametrize(
    ("make", "parameters"),
    # The counts that torchvision (ResNet-18) and the MobileNet paper's table 1 layers give.
    [(vision_models.resnet18, 11_689_512), (vision_models.mobilenet_v1, 4_231_976)],
)
def test_parameter_count_is_the_published_one(make, parameters):
    assert sum(value.numel() for value in make().parameters()) == parameters


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "gain"),
    [
        ("resnet18", vision_models.resnet18, 1.0),
        ("mobilenet-v1", vision_models.mobilenet_v1, catalog.RELU_GAIN),
    ],
)
def test_exported_file_agrees_with_torch(name, make, gain, tmp_path):
    exported = zoo.export(name, tmp_path / "model.onnx")
    onnx.checker.check_model(str(exported.path), full_check=True)
    inputs = zoo.sample_inputs(exported)
    (found,) = onnxruntime.InferenceSession(str(exported.path)).run(None, inputs)
    with torch.no_grad():
        net = draw_weights(make(), catalog.WEIGHT_SEED, gain)
        expected = net(torch.from_numpy(inputs["image"])).numpy()
    assert np.abs(found - expected).max() <= REASSOCIATION * np.abs(expected).max()
