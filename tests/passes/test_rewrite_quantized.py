from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.quantized_models import (
    Layers,
    build_on_integers,
    meaning,
    on_integers,
    step_of_last,
)
from tests.sampled import few_fast_rows
from tvm_fusionx.passes.rewrite_quantized import rewrite_quantized
from tvm_fusionx.schedules import describe_cpu, resolve_target

KINDS = few_fast_rows(product(["QUInt8", "QInt8"], [True, False]), 1)

VNNI = "llvm -mcpu=icelake-server"


def _integer_products(model: Any, chosen: Any) -> int:
    mod, _ = fx.from_onnx(model)
    changed = chosen(mod)
    return changed["main"].astext(show_meta_data=False).count('out_dtype="int32"')


# What this machine runs if it runs 512-bit vectors: without VNNI, without bytes in tables.
NARROW = "llvm -mcpu=haswell"


def _run(model: Any, x: np.ndarray, target: str, build: Any = build_on_integers) -> np.ndarray:
    mod, _ = fx.from_onnx(model)
    library = build(mod, target)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", x)
    executor.run()
    result: np.ndarray = executor.get_output(0).numpy()
    return result


def _check(
    layers: Layers,
    output: str,
    folder: Path,
    products: int,
    target: str = "llvm -mcpu=native",
    **how: Any,
) -> None:
    model = layers.quantized(output, folder, **how)
    assert _integer_products(model, on_integers(VNNI)) == products
    x = layers.input()
    expected, found = meaning(model, x), _run(model, x, target)
    difference = np.abs(found - expected) / step_of_last(model)
    # Sums are exact; the reference rounds its sums of floats, which may move a value over a border.
    assert difference.max() <= 1.01
    assert (difference > 0.5).mean() < 0.01


def _perceptron() -> tuple[Layers, str]:
    layers = Layers(6, 16)
    hidden = layers.add("Relu", layers.add("Gemm", "x", layers.weights(16, 24), layers.weights(24)))
    return layers, layers.add("MatMul", hidden, layers.weights(24, 20))


@pytest.mark.parametrize(("activations", "per_channel"), KINDS)
def test_dense_layers(tmp_path: Path, activations: str, per_channel: bool) -> None:
    layers, output = _perceptron()
    _check(layers, output, tmp_path, 2, activations=activations, per_channel=per_channel)


def test_symmetric_activations(tmp_path: Path) -> None:
    layers, output = _perceptron()
    _check(layers, output, tmp_path, 2, activations="QInt8", symmetric=True)


def test_rows_of_a_batch_and_a_residual(tmp_path: Path) -> None:
    layers = Layers(2, 3, 16)
    product = layers.add("MatMul", "x", layers.weights(16, 16))
    _check(layers, layers.add("Add", product, "x"), tmp_path, 1)


@pytest.mark.parametrize(
    ("activations", "target"),
    few_fast_rows(product(["QInt16", "QUInt16"], ["llvm -mcpu=native", NARROW]), 1),
)
def test_activations_of_16_bits(
    tmp_path: Path, activations: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The first that quantizes to 16 bits.
    monkeypatch.setattr("tests.quantized_models.OPSET", 21)
    layers = Layers(1, 6, 9, 7)
    image = layers.add("Relu", layers.conv("x", 16, 6, 3))
    rows = layers.add("Transpose", layers.conv(image, 16, 16, 1), perm=[0, 2, 3, 1])
    product = layers.add("MatMul", rows, layers.weights(16, 20))
    _check(layers, product, tmp_path, 3, target, activations=activations)


def test_two_quantized_branches_are_added(tmp_path: Path) -> None:
    layers = Layers(1, 16, 36, 36)
    left, right = layers.conv("x", 16, 16, 3), layers.conv("x", 16, 16, 1)
    both = layers.add("Relu", layers.add("Add", left, right))
    _check(layers, layers.conv(both, 8, 16, 1), tmp_path, 3)


@pytest.mark.parametrize("depth", [10, 7])
def test_depths_that_no_instruction_divides_are_filled_up(tmp_path: Path, depth: int) -> None:
    layers = Layers(4, depth)
    _check(layers, layers.add("MatMul", "x", layers.weights(depth, 8)), tmp_path, 1)


@pytest.mark.parametrize(("inputs", "outputs"), few_fast_rows([(6, 12), (10, 10)], 1))
def test_channels_that_no_instruction_divides_are_filled_up(
    tmp_path: Path, inputs: int, outputs: int
) -> None:
    layers = Layers(1, inputs, 7, 5)
    first = layers.add("Relu", layers.conv("x", outputs, inputs, 3))
    second = layers.conv(first, inputs, outputs, 1)
    _check(layers, layers.add("Add", "x", second), tmp_path, 2)


def _attention() -> tuple[Layers, str]:
    """Return two heads of 16 places: projections, scores, and what they weigh."""
    heads, places, size = 2, 16, 10
    layers = Layers(1, places, heads * size)

    def part(perm: list[int]) -> str:
        weights = layers.weights(heads * size, heads * size)
        shape = layers.constant(np.array([0, places, heads, size]))
        by_head = layers.add("Reshape", layers.add("MatMul", "x", weights), shape)
        return layers.add("Transpose", by_head, perm=perm)

    query, key, value = (part(perm) for perm in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    factor = layers.constant(np.array(size**-0.5, "float32"))
    scores = layers.add("Mul", layers.add("MatMul", query, key), factor)
    shares = layers.add("Softmax", scores, axis=-1)
    weighed = layers.add("Transpose", layers.add("MatMul", shares, value), perm=[0, 2, 1, 3])
    shape = layers.constant(np.array([0, places, heads * size]))
    return layers, layers.add("Reshape", weighed, shape)


@pytest.mark.parametrize(
    ("activations", "target"),
    few_fast_rows(product(["QUInt8", "QInt8"], ["llvm -mcpu=native", NARROW]), 1),
)
def test_products_of_two_activations(tmp_path: Path, activations: str, target: str) -> None:
    layers, output = _attention()
    model = layers.quantized(output, tmp_path, activations=activations)
    assert _integer_products(model, on_integers(VNNI)) == 5
    x = layers.input()
    found, step = _run(model, x, target), step_of_last(model)
    options = onnxruntime.SessionOptions()
    # As what the model means: its integer kernels compute softmax in 8 bits too.
    options.add_session_config_entry("session.disable_quant_qdq", "1")
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    for expected in (meaning(model, x), session.run(None, {"x": x})[0]):
        steps = np.abs(found - expected) / step
        assert steps.max() <= 1.01
        assert (steps > 0.5).mean() < 0.01


def test_one_column_between_transposes_is_one_of_floats(tmp_path: Path) -> None:
    layers = Layers(1, 8, 13, 13)
    rows = layers.add("Transpose", "x", perm=[0, 2, 3, 1])
    product = layers.add("MatMul", rows, layers.weights(8, 1))
    _check(layers, layers.add("Transpose", product, perm=[0, 3, 1, 2]), tmp_path, 0)


@pytest.mark.parametrize(
    ("channels", "groups"),
    few_fast_rows([((64, 64), 8), ((32, 32), 4), ((6, 12), 3)], 1),
)
def test_channels_in_groups(tmp_path: Path, channels: tuple[int, int], groups: int) -> None:
    inputs, outputs = channels
    layers = Layers(1, 8, 7, 6)
    first = layers.add("Relu", layers.conv("x", inputs, 8, 1))
    second = layers.conv(first, outputs, inputs, 3, group=groups, strides=[2, 1])
    _check(layers, layers.conv(second, 8, outputs, 1), tmp_path, 3)


def _convolutions() -> tuple[Layers, str]:
    layers = Layers(1, 8, 9, 9)
    first = layers.add("Relu", layers.conv("x", 16, 8, 3))
    second = layers.conv(first, 16, 16, 1)
    return layers, layers.conv(layers.add("Add", first, second), 32, 16, 3, strides=[2, 2])


@pytest.mark.parametrize(("activations", "per_channel"), KINDS)
def test_convolutions_with_a_residual(tmp_path: Path, activations: str, per_channel: bool) -> None:
    layers, output = _convolutions()
    _check(layers, output, tmp_path, 3, activations=activations, per_channel=per_channel)


def test_pools_and_concatenations_between(tmp_path: Path) -> None:
    layers = Layers(1, 8, 8, 8)
    left = layers.add("MaxPool", layers.conv("x", 16, 8, 3), kernel_shape=[2, 2], strides=[2, 2])
    right = layers.conv("x", 16, 8, 1, strides=[2, 2])
    joined = layers.add("Concat", left, right, axis=1)
    _check(layers, layers.conv(joined, 16, 32, 1), tmp_path, 3)


def test_an_image_is_filled_up(tmp_path: Path) -> None:
    layers = Layers(1, 3, 8, 8)
    first = layers.add("Relu", layers.conv("x", 16, 3, 3))
    _check(layers, layers.conv(first, 16, 16, 1), tmp_path, 2)


def _gated(layers: Layers, x: str) -> str:
    return layers.add("Mul", x, layers.add("Sigmoid", x))


def _apart(kernel: int, **how: Any) -> tuple[Layers, str]:
    layers = Layers(1, 8, 9, 9)
    wide = _gated(layers, layers.conv("x", 16, 8, 1))
    apart = _gated(layers, layers.conv(wide, 16, 16, kernel, group=16, **how))
    return layers, layers.conv(apart, 16, 16, 1)


@pytest.mark.parametrize("activations", ["QUInt8", "QInt8"])
def test_depthwise_convolutions(tmp_path: Path, activations: str) -> None:
    _check(*_apart(3), tmp_path, 3, activations=activations)


@pytest.mark.slow
@pytest.mark.skipif(
    describe_cpu(resolve_target("llvm -mcpu=native")).lanes < 16, reason="no 512-bit vectors"
)
def test_depthwise_convolutions_without_vnni(tmp_path: Path) -> None:
    _check(*_apart(5, strides=[2, 2]), tmp_path, 3, target=NARROW)


def test_gates_between_integers_are_tables(tmp_path: Path) -> None:
    layers, output = _apart(3)
    mod, _ = fx.from_onnx(layers.quantized(output, tmp_path))

    def counts(target: str) -> tuple[int, int]:
        text = fx.passes.RewriteQuantized(target)(mod)["main"].astext(show_meta_data=False)
        return text.count("fusionx.look_up("), text.count("sigmoid(")

    assert counts(VNNI) == (2, 0)
    # Eight bytes one by one cost as much as what they stand for.
    assert counts(NARROW) == (0, 2)


def test_layers_that_integers_make_slower_stay_floats(tmp_path: Path) -> None:
    layers = Layers(1, 16, 24, 24)
    wide = layers.add("Relu", layers.conv("x", 16, 16, 3))
    output = layers.conv(wide, 32, 16, 3, strides=[2, 2])
    model = layers.quantized(output, tmp_path)
    # Minimal filtering takes fewer multiplications than an instruction for two products spares.
    chosen = map(fx.passes.RewriteQuantized, (VNNI, NARROW))
    assert [_integer_products(model, each) for each in chosen] == [2, 1]
    mod, _ = fx.from_onnx(model)
    report = fx.explain(mod, NARROW)
    first, second = report.products
    assert (second.operator, second.reason) == ("nn.conv2d", "")
    assert "thousand on floats" in first.reason
    text = report.text()
    assert "Quantized products: 1 of 2 multiply integers" in text
    assert f"{first.name} in floats: {first.reason}" in text
    x = layers.input()
    difference = np.abs(_run(model, x, NARROW, fx.build) - meaning(model, x)) / step_of_last(model)
    assert difference.max() <= 1.01
    assert (difference > 0.5).mean() < 0.01


def test_whoever_chooses_is_asked(tmp_path: Path) -> None:
    layers, output = _perceptron()
    mod, _ = fx.from_onnx(layers.quantized(output, tmp_path))
    asked = []

    def judge(graph: Any, node: Any, data: Any) -> str | None:
        asked.append((node.op, data.dtype))
        return "not this one" if len(asked) == 1 else None

    changed, choices = rewrite_quantized(mod, VNNI, judge)
    assert asked == [("nn.dense", "uint8")] * 2
    assert [choice.reason for choice in choices] == ["not this one", None]
    assert changed["main"].astext(show_meta_data=False).count('out_dtype="int32"') == 1


def test_products_of_integers_that_a_model_has_itself(tmp_path: Path) -> None:
    """MatMulInteger behind ConvInteger, its zero point computed, as ONNX Runtime gives them."""
    generator = np.random.default_rng(0)
    arrays = {
        "w": generator.integers(0, 256, (8, 4, 3, 3)).astype("uint8"),
        "wz": np.uint8(128),
        "z": np.uint8(7),
        "small": np.float32(1e-4),
        "v": generator.integers(-127, 128, (9, 12)).astype("int8"),
    }
    nodes = [
        helper.make_node("ConvInteger", ["x", "w", "z", "wz"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Cast", ["c"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["f", "small"], ["scaled"]),
        helper.make_node("DynamicQuantizeLinear", ["scaled"], ["q", "s", "qz"]),
        helper.make_node("MatMulInteger", ["q", "v", "qz"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "integers",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 4, 6, 9))],
        [helper.make_tensor_value_info("y", TensorProto.INT32, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    mod, _ = fx.from_onnx(model)
    choices = rewrite_quantized(mod, VNNI)[1]
    assert [(choice.op, choice.reason) for choice in choices] == [
        ("nn.conv2d", None),
        ("nn.dense", None),
    ]
    x = generator.integers(0, 256, (1, 4, 6, 9)).astype("uint8")
    session = onnxruntime.InferenceSession(model.SerializeToString())
    expected = session.run(None, {"x": x})[0]
    assert np.array_equal(_run(model, x, "llvm -mcpu=native"), expected)
