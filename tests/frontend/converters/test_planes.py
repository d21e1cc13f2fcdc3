from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm import relay
from tvm.contrib import graph_executor

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats
from tests.quantized_models import (
    Layers,
    build_on_integers,
    meaning,
    on_integers,
    step_of_last,
)
from tests.relay_modules import inputs_of, module, run_plain, var
from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.frontend.converters.planes import (
    Weights,
    can_be_flat,
    can_be_pooled_flat,
    convolve_flat,
    pool_flat,
)
from tvm_fusionx.frontend.converters.windows import Windows
from tvm_fusionx.frontend.values import Tensor
from tvm_fusionx.passes import RewriteGraph

X = floats(1, 4, 5, 6, 7)


def windows(kernel: tuple[int, ...]) -> Windows:
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    return Windows((8,) * len(kernel), kernel, ones, ones, zeros, zeros)


@pytest.mark.parametrize(
    ("kernel", "expected"), [((3, 3, 3), True), ((1, 1, 1), True), ((3, 3), False), ((3,), True)]
)
def test_sequences_and_volumes_are_flattened(kernel: tuple[int, ...], expected: bool) -> None:
    assert can_be_flat(windows(kernel)) is expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((1, 1, 1), {}),
        ((3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}),
        ((3, 1, 1), {"strides": [2, 1, 1], "pads": [2, 0, 0, 1, 0, 0]}),
        ((2, 1, 1), {"dilations": [2, 1, 1]}),
        ((1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1]}),
        ((1, 1, 1), {"strides": [2, 2, 2]}),
        ((3, 3, 3), {"pads": [1, 1, 1, 1, 1, 1]}),
        ((3, 2, 3), {"strides": [2, 1, 2], "pads": [1, 0, 1, 2, 1, 0]}),
        ((2, 2, 2), {"dilations": [2, 2, 1], "auto_pad": "SAME_UPPER"}),
    ],
    ids=str,
)
def test_volumes_agree_with_the_reference(
    kernel: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    inputs = [X, floats(3, 4, *kernel, seed=1), floats(3, seed=2)]
    check([Case("Conv", inputs, attributes, known=(1, 2))])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "outputs", "kernel", "attributes"),
    [
        (4, 4, (3, 3, 3), {"pads": [1] * 6}),
        (4, 8, (3, 3, 3), {"pads": [1, 0, 1, 0, 1, 1], "strides": [2, 1, 2]}),
        (2, 6, (3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}),
        (2, 6, (2, 3, 3), {"dilations": [2, 1, 1]}),
        (4, 4, (1, 3, 3), {}),
    ],
    ids=str,
)
def test_groups_of_volumes_agree_with_the_reference(
    groups: int, outputs: int, kernel: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    inputs = [X, floats(outputs, 4 // groups, *kernel, seed=2), floats(outputs, seed=3)]
    case = Case("Conv", inputs, {**attributes, "group": groups}, known=(1, 2))
    check([by_onnxruntime(case)])


@pytest.mark.slow
@pytest.mark.parametrize("strides", [[1, 1, 1], [2, 1, 1]], ids=str)
def test_a_batch_of_volumes_agrees_with_the_reference(strides: list[int]) -> None:
    weights = floats(3, 4, 3, 3, 3, seed=1)
    x = np.concatenate([X, floats(1, 4, 5, 6, 7, seed=3)])
    check([Case("Conv", [x, weights], {"pads": [1] * 6, "strides": strides}, known=(1,))])


def volumes(pads: tuple[int, int, int], kernel: tuple[int, int, int]) -> Windows:
    return Windows((5, 6, 7), kernel, kernel, (1, 1, 1), pads, pads)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize(
    ("kernel", "pads"),
    [((1, 2, 2), (0, 0, 0)), ((2, 2, 2), (0, 0, 0)), ((2, 3, 2), (0, 1, 1))],
    ids=str,
)
def test_a_pool_is_one_over_two_axes_and_the_largest_of_frames(
    batch: int, kernel: tuple[int, int, int], pads: tuple[int, int, int]
) -> None:
    windows = volumes(pads, kernel)
    x = var("x", batch, 4, 5, 6, 7)
    made = pool_flat(x, batch, 4, windows)
    plain = relay.nn.max_pool3d(x, kernel, kernel, padding=windows.padding)
    assert "max_pool3d" not in str(made)
    inputs = inputs_of(module(x))
    found, expected = (run_plain(module(each), inputs) for each in (made, plain))
    np.testing.assert_array_equal(found[0], expected[0])


def test_only_what_is_of_pictures_is_pooled_as_pictures() -> None:
    x, weights = var("x", 1, 4, 5, 6, 7), floats(3, 4, 3, 3, 3)
    windows = Windows((5, 6, 7), (3, 3, 3), *[(1, 1, 1)] * 4)
    convolved = convolve_flat(x, 1, Weights(weights), None, windows)
    side_by_side = volumes((0, 0, 0), (2, 2, 2))
    assert can_be_pooled_flat(relay.nn.relu(convolved), side_by_side)
    assert not can_be_pooled_flat(relay.nn.relu(x), side_by_side)
    assert not can_be_pooled_flat(relay.nn.softmax(convolved), side_by_side)
    assert not can_be_pooled_flat(relay.transpose(x, (0, 1, 2, 4, 3)), side_by_side)
    assert not can_be_pooled_flat(convolved, volumes((1, 0, 0), (2, 2, 2)))
    assert not can_be_pooled_flat(convolved, Windows((5, 6, 7), (2, 2, 2), *[(1, 1, 1)] * 4))
    assert not can_be_pooled_flat(convolved, windows)


def test_a_video_network_is_pictures_from_end_to_end() -> None:
    """No transpose but the input's is left between convolutions and pools over three axes."""
    kernel, nodes, value = [3, 3, 3], [], "x"
    for place in ("a", "b"):
        conv = {"pads": [1] * 6, "kernel_shape": kernel}
        pool = {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}
        nodes += [
            helper.make_node("Conv", [value, f"w{place}"], [f"c{place}"], **conv),
            helper.make_node("Relu", [f"c{place}"], [f"r{place}"]),
            helper.make_node("MaxPool", [f"r{place}"], [f"p{place}"], **pool),
        ]
        value = f"p{place}"
    weights = [
        numpy_helper.from_array(floats(16, channels, *kernel), name)
        for name, channels in (("wa", 3), ("wb", 16))
    ]
    shapes = (("x", (1, 3, 4, 16, 16)), ("pb", (1, 16, 1, 4, 4)))
    ends = [helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes]
    model = helper.make_model(helper.make_graph(nodes, "video", ends[:1], ends[1:], weights))
    mod = RewriteGraph()(from_onnx(model)[0])
    transposes = [
        call.checked_type.concrete_shape
        for call in post_order(relay.transform.InferType()(mod)["main"].body)
        if isinstance(call, relay.Call) and call.op.name == "transpose"
    ]
    assert transposes == [(4, 1, 3, 16, 16)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channels", "attributes"),
    [
        (4, {"pads": [1, 1]}),
        (4, {"strides": [2], "pads": [2, 0]}),
        (4, {"dilations": [2], "pads": [3, 1]}),
        (2, {"group": 2}),
        (1, {"group": 4, "pads": [1, 1]}),
    ],
    ids=str,
)
def test_sequences_agree_with_the_reference(channels: int, attributes: dict[str, Any]) -> None:
    inputs = [floats(2, 4, 9), floats(8, channels, 3, seed=1), floats(8, seed=2)]
    check([by_onnxruntime(Case("Conv", inputs, attributes, known=(1, 2)))])


VNNI = "llvm -mcpu=icelake-server"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "kernel", "attributes", "moves"),
    [
        # Transposes but the data's first and the result's last undo each other.
        ((1, 4, 5, 6, 7), (3, 3, 3), {"pads": [1] * 6}, 2),
        ((1, 4, 5, 6, 7), (3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}, 0),
        ((2, 4, 9), (3,), {"pads": [1, 1]}, 0),
    ],
    ids=["frames", "depth", "sequence"],
)
def test_quantized_ones_are_products_of_integers(
    tmp_path: Path,
    shape: tuple[int, ...],
    kernel: tuple[int, ...],
    attributes: dict[str, Any],
    moves: int,
) -> None:
    layers, value = Layers(*shape), "x"
    for channels, outputs in ((4, 16), (16, 8)):
        weights = layers.weights(outputs, channels, *kernel)
        value = layers.add("Conv", value, weights, layers.weights(outputs), **attributes)
        value = layers.add("Relu", value)
    # ONNX Runtime's tool makes zero points that are not zero of data of both signs.
    model = layers.quantized(value, tmp_path, activations="QUInt8", per_channel=True)
    changed = on_integers(VNNI)(from_onnx(model)[0])
    text = changed["main"].astext(show_meta_data=False)
    assert text.count('out_dtype="int32"') == 2
    assert text.count("transpose(") == moves, text
    assert "conv3d" not in text
    assert "conv1d" not in text
    x = layers.input()
    library = build_on_integers(from_onnx(model)[0], "llvm -mcpu=native")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", x)
    executor.run()
    difference = np.abs(executor.get_output(0).numpy() - meaning(model, x)) / step_of_last(model)
    assert difference.max() <= 1.01
    assert (difference > 0.5).mean() < 0.01


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "kernel", "pads", "groups"),
    [
        ((1, 4, 9), (3,), [1, 1], 1),
        ((1, 4, 5, 6, 7), (3, 3, 3), [1] * 6, 1),
        ((1, 4, 5, 6, 7), (3, 1, 1), [1, 0, 0, 1, 0, 0], 1),
        ((1, 4, 5, 6, 7), (3, 3, 3), [1] * 6, 4),
    ],
    ids=["sequence", "frames", "depth", "groups"],
)
def test_bytes_that_a_model_is_given_are_convolved_as_they_are(
    shape: tuple[int, ...], kernel: tuple[int, ...], pads: list[int], groups: int
) -> None:
    generator = np.random.default_rng(0)
    x = generator.integers(0, 255, shape).astype("uint8")
    weights = generator.integers(-90, 90, (16, 4 // groups, *kernel)).astype("int8")
    # With powers of two all sums are exact, and nothing is rounded twice.
    scales, zeros = np.full(16, 2**-7, "float32"), np.zeros(16, "int8")
    inputs = [x, np.float32(2**-6), np.uint8(120), weights, scales, zeros]
    inputs += [np.float32(2**-2), np.uint8(100)]
    case = Case("QLinearConv", inputs, {"pads": pads, "group": groups}, known=tuple(range(1, 8)))
    check([by_onnxruntime(case)])


@pytest.mark.parametrize(
    ("scale", "axis", "known"), [([], 1, True), ([8], 0, True), ([4], 1, False)]
)
def test_weights_of_one_scale_have_no_axis(scale: list[int], axis: int, known: bool) -> None:
    integers = relay.const(np.ones((8, 4, 3, 1, 1), "int8"))
    numbers = [
        relay.const(np.full(scale, value, kind)) for value, kind in ((0.5, "float32"), (0, "int32"))
    ]
    made = relay.qnn.op.dequantize(integers, *numbers, axis=axis)
    weights = Weights.of(Tensor(made, (8, 4, 3, 1, 1), "float32"))
    assert (weights is not None) is known
    if weights is not None:
        again = weights.laid(lambda array: array.reshape(8, 12, 1, 1))
        assert list(relay.transform.InferTypeLocal(again).shape) == [8, 12, 1, 1]


def test_computed_weights_stay_where_they_are() -> None:
    assert Weights.of(Tensor(var("w", 8, 4, 3), (8, 4, 3), "float32")) is None
    assert Weights.of(Tensor.from_array(floats(8, 4, 3))) is not None
    integers = relay.const(np.ones((8, 4, 3), "int8"))
    scale, zero = relay.const(np.ones(4, "float32")), relay.const(np.zeros(4, "int32"))
    by_input = relay.qnn.op.dequantize(integers, scale, zero, axis=1)
    assert Weights.of(Tensor(by_input, (8, 4, 3), "float32")) is None
