from __future__ import annotations

import random

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.search.small_spaces import cnns, transformers
from tvm_fusionx.errors import ModelError
from tvm_fusionx.search.onnx_network import onnx_network
from tvm_fusionx.search.replacements import with_activation
from tvm_fusionx.search.space_file import ACTIVATIONS

torch = pytest.importorskip("torch", reason="torch is not installed")

from tvm_fusionx.search.torch_network import torch_network  # noqa: E402

SPACES = {"transformers": transformers, "cnns": cnns}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SPACES)
def test_it_computes_what_the_torch_module_computes(name: str, seed: int) -> None:
    candidate = SPACES[name]().sample(random.Random(seed))
    network = torch_network(candidate, seed)
    generator = np.random.default_rng(seed)
    shape = (4, 8) if name == "transformers" else (4, 1, 8, 8)
    x = generator.normal(size=shape).astype("float32")
    if name == "transformers":
        x = generator.integers(0, 20, shape)
    with torch.no_grad():
        network.train()(torch.from_numpy(x))  # batch normalisation has something to remember
        expected = network.eval()(torch.from_numpy(x)).numpy()
    model = onnx_network(candidate, network.arrays(), batch=4)
    onnx.checker.check_model(model)
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_each_activation_is_the_same_in_both(name: str, activation: str) -> None:
    candidate = with_activation(SPACES[name]().sample(random.Random(1)), activation)
    network = torch_network(candidate, 1).eval()
    x = torch.arange(8).reshape(1, 8) % 20
    if name == "cnns":
        x = torch.linspace(-4, 4, 64).reshape(1, 1, 8, 8)
    with torch.no_grad():
        expected = network(x).numpy()
    model = onnx_network(candidate, network.arrays()).SerializeToString()
    (found,) = onnxruntime.InferenceSession(model).run(None, {"x": x.numpy()})
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


def test_random_weights_have_the_same_shapes() -> None:
    candidate = cnns().sample(random.Random(1))
    held = {each.name: tuple(each.dims) for each in onnx_network(candidate).graph.initializer}
    for name, array in torch_network(candidate).arrays().items():
        assert held[name] == array.shape


def test_nodes_say_which_layer_they_are_of() -> None:
    candidate = transformers().sample(random.Random(1))
    nodes = onnx_network(candidate).graph.node
    layers = [node.name.partition("/")[0] for node in nodes[:-1]]
    assert layers == sorted(layers)
    assert len(set(layers)) == candidate["choices"]["layers"] + 2


def test_a_missing_weight_is_told() -> None:
    candidate = cnns().sample(random.Random(1))
    arrays = torch_network(candidate).arrays()
    name = next(iter(arrays))
    with pytest.raises(ModelError, match=f"weight {name}"):
        onnx_network(candidate, {**arrays, name: arrays[name][:0]})
