from __future__ import annotations

import sys

import numpy as np
import pytest

from tests.compress.quantize.small_networks import ENGINE
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize import runner as module
from tvm_fusionx.compress.quantize.runner import OWN, default_engine, runner
from tvm_fusionx.errors import InputError, MissingDependencyError


def _product() -> Layers:
    layers = Layers(3, 8)
    layers.add("MatMul", "x", layers.weights(8, 8))
    return layers


@pytest.mark.slow
def test_both_engines_give_the_same() -> None:
    layers = _product()
    inputs = {"x": layers.input(), "unread": np.zeros(1)}
    (theirs,) = runner(layers.model("y0"), ENGINE)(inputs)
    (ours,) = runner(layers.model("y0"), OWN)(inputs)
    assert np.abs(ours - theirs).max() <= 1e-6 * np.abs(theirs).max()


def test_the_installed_engine_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_engine() == ENGINE
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    assert default_engine() == OWN


def test_an_unknown_engine_is_told() -> None:
    with pytest.raises(InputError, match="expected onnxruntime or fusionx"):
        runner(_product().model("y0"), "abacus")


def test_a_model_that_it_does_not_take_is_told() -> None:
    model = _product().model("y0")
    model.graph.node[0].op_type = "Nothing"
    with pytest.raises(InputError, match="a model that ONNX Runtime runs"):
        runner(model, ENGINE)


def test_a_missing_engine_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(MissingDependencyError, match="or say engine='fusionx'"):
        runner(_product().model("y0"), ENGINE)
