from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.compress.quantize.small_networks import (
    ENGINE,
    graph_of,
    ignore,
    operators,
    pictures,
    residual,
)
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.affine import affine_of
from tvm_fusionx.compress.quantize.calibrate import observe, tensors_to_observe
from tvm_fusionx.compress.quantize.model_graph import ModelGraph
from tvm_fusionx.compress.quantize.ranges import minmax_range
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.samples import Samples
from tvm_fusionx.compress.quantize.units import find_units
from tvm_fusionx.compress.quantize.write_qdq import write_qdq


def _written(
    model: Any, samples: list[Any], without: str = "", dtype: str = "uint8", products: bool = False
) -> Any:
    graph = graph_of(model)
    units = find_units(graph, products=products)
    inputs = Samples(samples, graph.inputs)
    histograms = observe(graph, tensors_to_observe(graph, units), inputs, ENGINE, ignore)
    affines = {name: affine_of(minmax_range(each), dtype) for name, each in histograms.items()}
    before = graph.model.SerializeToString(deterministic=True)
    written = write_qdq(graph, units, {u.name for u in units if u.op != without}, affines)
    assert graph.model.SerializeToString(deterministic=True) == before
    return written


def _error(model: Any, changed: Any, samples: list[Any]) -> float:
    run, run_changed = runner(model, ENGINE), runner(changed, ENGINE)
    (exact,), (found,) = run(samples[0]), run_changed(samples[0])
    return float(np.abs(found - exact).max() / np.abs(exact).max())


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_the_whole_model_computes_nearly_the_same(dtype: str) -> None:
    samples = pictures()
    written = _written(residual(), samples, dtype=dtype)
    assert 0 < _error(residual(), written, samples) < 0.03
    # Five tensors, four layers' weights and biases; the ReLUs before quantizations are gone.
    assert operators(written).count("QuantizeLinear") == 5
    assert operators(written).count("DequantizeLinear") == 5 + 2 * 4
    assert "Relu" not in operators(written)


def test_no_unit_is_the_model_in_float() -> None:
    samples = pictures()
    graph = graph_of(residual())
    written = write_qdq(graph, find_units(graph), (), {})
    assert _error(residual(), written, samples) == 0
    assert "QuantizeLinear" not in operators(written)


def test_a_bias_has_the_scale_of_data_and_weights() -> None:
    graph = ModelGraph(_written(residual(), pictures()))
    convolution = next(node for node in graph.nodes if node.op_type == "Conv")
    data, weights, bias = (graph.producers[name] for name in convolution.input)
    scales = [graph.array(node.input[1]) for node in (data, weights, bias)]
    assert graph.array(bias.input[0]).dtype == np.int32  # type: ignore[union-attr]
    assert np.array_equal(scales[0] * scales[1], scales[2])  # type: ignore[operator]
    assert graph.array(weights.input[0]).dtype == np.int8  # type: ignore[union-attr]


def test_a_bias_far_larger_than_weights_fits() -> None:
    layers = Layers(4, 16)
    weights = np.zeros((8, 16), "float32")
    weights[:, 0] = 1e-12
    bias = layers.constant(np.linspace(-9, 9, 8, dtype="float32"))
    y = layers.add("Gemm", "x", layers.constant(weights), bias, transB=1)
    samples = [{"x": layers.input()}]
    assert _error(layers.model(y), _written(layers.model(y), samples), samples) < 1e-6


def test_a_layer_in_float_keeps_its_weights() -> None:
    samples = pictures()
    written = _written(residual(), samples, without="Gemm")
    graph = ModelGraph(written)
    product = next(node for node in graph.nodes if node.op_type == "Gemm")
    assert graph.array(product.input[1]) is not None


def test_rows_of_a_table_are_bytes_until_they_are_read() -> None:
    generator = np.random.default_rng(0)
    table = generator.normal(size=(50, 16)).astype("float32")
    weights = generator.normal(size=(16, 8)).astype("float32")
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="rows"),
        helper.make_node("MatMul", ["rows", "w"], ["y"], name="product"),
    ]
    constants = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(weights, "w")]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 8])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    samples = [{"ids": generator.integers(0, 50, (1, 4))} for _ in range(4)]
    written = _written(model, samples)
    assert 0 < _error(model, written, samples) < 0.02
    stored = {t.name: t.data_type for t in written.graph.initializer}
    assert stored["rows.table"] == TensorProto.INT8
    assert TensorProto.FLOAT not in {t.data_type for t in written.graph.initializer if t.dims[1:]}


def test_a_concatenation_with_one_scale_rounds_its_parts_alone() -> None:
    layers = Layers(1, 8, 6, 6)
    parts = [layers.add("Sigmoid", layers.conv("x", 8, 8, 1)) for _ in range(2)]
    model = layers.model(layers.conv(layers.add("Concat", *parts, axis=1), 8, 16, 1))
    samples = pictures(shape=(1, 8, 6, 6))
    (shared,) = runner(_written(model, samples), ENGINE)(samples[0])
    (apart,) = runner(_written(model, samples, without="Concat"), ENGINE)(samples[0])
    assert np.array_equal(shared, apart)


def test_both_sides_of_a_product() -> None:
    layers = Layers(1, 8, 16)
    turned = layers.add("Transpose", layers.add("Tanh", "x"), perm=[0, 2, 1])
    model = layers.model(layers.add("MatMul", layers.add("Sigmoid", "x"), turned))
    samples = pictures(shape=(1, 8, 16))
    written = _written(model, samples, products=True)
    assert operators(written).count("QuantizeLinear") == 2
    assert 0 < _error(model, written, samples) < 0.03


def test_what_is_written_is_valid_and_standard() -> None:
    written = _written(residual(), pictures())
    onnx.checker.check_model(written, full_check=True)
    assert {node.domain for node in written.graph.node} == {""}
