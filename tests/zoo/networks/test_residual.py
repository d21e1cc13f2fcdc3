"""ResNets: the counts of the paper, and the exported file agrees with torch."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.zoo.networks.published import count, printed
from tvm_fusionx import zoo
from tvm_fusionx.zoo import recipe
from tvm_fusionx.zoo.weights import calibrate_norms, draw_weights

torch = pytest.importorskip("torch")
onnxruntime = pytest.importorskip("onnxruntime")
residual = pytest.importorskip("tvm_fusionx.zoo.networks.residual")

REASSOCIATION = 1e-5  # float32 sums in another order, relative to the largest output


@pytest.mark.parametrize(
    ("make", "parameters", "multiply_adds"),
    # He et al. 2016, table 1; the parameters as torchvision counts them.
    [(residual.resnet18, 11_689_512, "1.8G"), (residual.resnet50, 25_557_032, "3.8G")],
)
def test_counts_are_the_published_ones(make, parameters, multiply_adds):
    counted = count(make, (1, 3, 224, 224))
    assert counted.parameters == parameters
    assert counted.multiply_adds == printed(multiply_adds)
    assert counted.outputs == [(1, 1000)]


@pytest.mark.slow
def test_exported_file_agrees_with_torch(tmp_path):
    exported = zoo.export("resnet18", tmp_path / "model.onnx")
    onnx.checker.check_model(str(exported.path), full_check=True)
    inputs = zoo.sample_inputs(exported)
    (found,) = onnxruntime.InferenceSession(str(exported.path)).run(None, inputs)
    net = calibrate_norms(draw_weights(residual.resnet18(), recipe.WEIGHT_SEED), [inputs["image"]])
    with torch.no_grad():
        expected = net(torch.from_numpy(inputs["image"])).numpy()
    assert np.abs(found - expected).max() <= REASSOCIATION * np.abs(expected).max()
