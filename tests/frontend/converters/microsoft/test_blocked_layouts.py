from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.converters.microsoft.by_onnx_runtime import (
    Call,
    expected_outputs,
    floats,
    translate,
)
from tests.frontend.converters.microsoft.optimized_files import operators, optimized
from tests.frontend.onnx_nodes import assert_close, run
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.nchwc_blocks import DOMAIN

pytestmark = pytest.mark.slow


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> Any:
    return helper.make_node(op_type, inputs.split(","), [output], **attributes)


def model(nodes: list[Any], outputs: str, weights: dict[str, Any], channels: int = 3) -> Any:
    shape = [1, channels, 12, 10]
    graph = helper.make_graph(
        nodes,
        "picture",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs.split(",")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def check(given: Any, folder: Path, wanted: set[str], channels: int = 3) -> None:
    """Let ONNX Runtime change the layouts, and compare with the model as it was."""
    saved = optimized(given, "all", folder)
    made = {name.removeprefix(f"{DOMAIN}.") for name in operators(saved) if DOMAIN in name}
    assert wanted <= made
    feeds = {"x": floats(1, channels, 12, 10)}
    for found, expected in zip(run(saved, feeds), expected_outputs(given, feeds), strict=True):
        assert_close(found, expected, "optimized")


def test_a_network_in_blocks(tmp_path: Path) -> None:
    pads = [1, 1, 1, 1]
    nodes = [
        node("Conv", "x,w0,b0", "a", pads=pads),
        node("Relu", "a", "b"),
        node("Conv", "b,w1", "c", pads=pads, group=24),
        node("Clip", "c,low,high", "d"),
        node("Conv", "d,w2", "e"),
        node("Add", "e,b", "f"),
        node("Conv", "f,w3,b3", "g", strides=[2, 2], pads=pads),
        node("LeakyRelu", "g", "y", alpha=0.2),
    ]
    weights = {
        "w0": floats(24, 3, 3, 3),
        "b0": floats(24),
        "w1": floats(24, 1, 3, 3),
        "w2": floats(24, 24, 1, 1),
        "w3": floats(20, 24, 3, 3),
        "b3": floats(20),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    check(model(nodes, "y", weights), tmp_path, {"Conv", "ReorderOutput"})


def test_pools_and_grids_in_blocks(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x,w", "a"),
        node("MaxPool", "a", "b", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", "b,w1", "c"),
        node("AveragePool", "c", "d", kernel_shape=[2, 2], count_include_pad=1, pads=[1, 1, 0, 0]),
        node("Conv", "d,w1", "e"),
        node("GlobalAveragePool", "e", "mean"),
        node("GlobalMaxPool", "d", "largest"),
        node(
            "Resize",
            "d,,scales",
            "f",
            mode="nearest",
            nearest_mode="floor",
            coordinate_transformation_mode="asymmetric",
        ),
        node("Conv", "f,w1", "wide"),
        node(
            "Resize",
            "d,,scales",
            "g",
            mode="linear",
            coordinate_transformation_mode="align_corners",
        ),
        node("Conv", "g,w1", "smooth"),
        node(
            "Resize",
            "d,,scales",
            "h",
            mode="linear",
            coordinate_transformation_mode="pytorch_half_pixel",
        ),
        node("Conv", "h,w1", "half"),
    ]
    weights = {
        "w": floats(32, 3, 3, 3),
        "w1": floats(32, 32, 1, 1),
        "scales": np.array([1, 1, 2, 2], "float32"),
    }
    wanted = {"AveragePool", "Conv", "GlobalAveragePool", "GlobalMaxPool", "MaxPool", "Upsample"}
    check(model(nodes, "mean,largest,wide,smooth,half", weights), tmp_path, wanted)


def test_inputs_are_reordered_and_joined(tmp_path: Path) -> None:
    nodes = [
        node("Conv", "x,w0", "a"),
        node("Conv", "x,w1", "b"),
        node("Concat", "a,b", "c", axis=1),
        node("Conv", "c,w2", "d", group=2),
        node("Sigmoid", "d", "e"),
        node("Transpose", "e", "y", perm=[0, 2, 3, 1]),
    ]
    weights = {
        "w0": floats(32, 20, 1, 1),
        "w1": floats(32, 20, 1, 1),
        "w2": floats(64, 32, 3, 3) * 0.1,
    }
    wanted = {"Conv", "ReorderInput", "ReorderOutput"}
    check(model(nodes, "y", weights, channels=20), tmp_path, wanted, channels=20)


def test_channels_last_come_in(tmp_path: Path) -> None:
    nodes = [
        node("Transpose", "x", "t", perm=[0, 3, 1, 2]),
        node("Conv", "t,w", "y"),
    ]
    graph = model(nodes, "y", {"w": floats(32, 20, 3, 3)})
    del graph.graph.input[:]
    shape = [1, 12, 10, 20]
    graph.graph.input.append(helper.make_tensor_value_info("x", TensorProto.FLOAT, shape))
    saved = optimized(graph, "all", tmp_path)
    feeds = {"x": floats(*shape)}
    assert f"{DOMAIN}.ReorderInput" in operators(saved)
    assert_close(run(saved, feeds)[0], expected_outputs(graph, feeds)[0], "optimized")


def test_what_does_not_fit_is_refused() -> None:
    x = floats(1, 16, 4, 4)
    with pytest.raises(UnsupportedOperatorError, match="1 to 16 channels; found 17"):
        translate(Call("ReorderOutput", [x], {"channels": 17}, domain=DOMAIN))
    with pytest.raises(UnsupportedOperatorError, match="output channels in blocks of"):
        translate(Call("Conv", [x, floats(12, 16, 1, 1)], known=[1], domain=DOMAIN))
