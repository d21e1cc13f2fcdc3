from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compress.quantize.small_networks import ENGINE, pictures, residual
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.prepare import prepare_model
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.errors import MissingDependencyError, ModelError


def _with_norm() -> onnx.ModelProto:
    layers = Layers(1, 8, 8, 8)
    row = [layers.constant(np.random.default_rng(i).random(16).astype("float32")) for i in range(4)]
    return layers.model(layers.add("BatchNormalization", layers.conv("x", 16, 8, 3), *row))


def test_a_norm_behind_a_convolution_is_part_of_it() -> None:
    model = _with_norm()
    prepared = prepare_model(model)
    assert [node.op_type for node in prepared.graph.node] == ["Conv"]
    x = pictures(1)[0]
    (before,), (after,) = runner(model, ENGINE)(x), runner(prepared, ENGINE)(x)
    assert np.abs(before - after).max() <= 1e-5 * np.abs(before).max()
    # The given model stays.
    assert [node.op_type for node in model.graph.node] == ["Conv", "BatchNormalization"]


def test_every_node_has_a_name_of_its_own() -> None:
    model = residual()
    for node in model.graph.node:
        node.name = "same"
    names = [node.name for node in prepare_model(model).graph.node]
    assert len(set(names)) == len(names)


def test_an_old_opset_becomes_one_with_scales_for_channels() -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    graph = helper.make_graph([node], "g", info[:1], info[1:])
    old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 9)], ir_version=8)
    assert prepare_model(old).opset_import[0].version == 13


def test_a_quantised_model_is_refused() -> None:
    scale = numpy_helper.from_array(np.array(1, "float32"), "s")
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["q"])
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2]),
        helper.make_tensor_value_info("q", TensorProto.UINT8, [2]),
    ]
    model = helper.make_model(helper.make_graph([node], "g", infos[:1], infos[1:], [scale]))
    with pytest.raises(ModelError, match="quantized already"):
        prepare_model(model)


def test_a_model_without_floats_is_refused() -> None:
    infos = [helper.make_tensor_value_info(name, TensorProto.INT64, [2]) for name in "xy"]
    node = helper.make_node("Neg", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", infos[:1], infos[1:]))
    with pytest.raises(ModelError, match="no output of float32"):
        prepare_model(model)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxslim", None)
    with pytest.raises(MissingDependencyError, match="onnxslim"):
        prepare_model(residual())
