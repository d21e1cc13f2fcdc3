"""Convolutions padded on both sides and cut behind: less padding, and ONNX Runtime's numbers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper
from tvm.contrib.graph_executor import GraphModule

import tvm_fusionx as fx
from tests.frontend.onnx_nodes import TOLERANCE, assert_close
from tests.relay_modules import operator_names
from tvm_fusionx.frontend import from_onnx

CHANNELS = 8


def _causal(draw: np.random.Generator) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return two layers over a sequence, each of some window, stride and dilation."""
    length, nodes, weights, last = int(draw.integers(20, 50)), [], {}, "x"
    feeds = {"x": draw.standard_normal((1, CHANNELS, length)).astype("float32")}
    for at in range(2):
        window, dilation = int(draw.integers(2, 5)), int(draw.integers(1, 5))
        stride = int(draw.integers(1, 3))
        pad = (window - 1) * dilation
        kept = (length - 1) // stride + 1
        weights[f"w{at}"] = draw.standard_normal((CHANNELS, CHANNELS, window)).astype("float32")
        weights[f"b{at}"] = draw.standard_normal(CHANNELS).astype("float32")
        weights |= {f"s{at}": np.array([0]), f"e{at}": np.array([kept]), f"a{at}": np.array([2])}
        told = {"pads": [pad, pad], "strides": [stride], "dilations": [dilation]}
        nodes += [
            helper.make_node("Conv", [last, f"w{at}", f"b{at}"], [f"c{at}"], **told),
            helper.make_node("Slice", [f"c{at}", f"s{at}", f"e{at}", f"a{at}"], [f"d{at}"]),
            helper.make_node("Relu", [f"d{at}"], [f"r{at}"]),
        ]
        last, length = f"r{at}", kept
    graph = helper.make_graph(
        nodes,
        "causal",
        [helper.make_tensor_value_info("x", 1, feeds["x"].shape)],
        [helper.make_tensor_value_info(last, 1, (1, CHANNELS, length))],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


@pytest.mark.parametrize("seed", range(4))
def test_no_slice_is_left(seed: int) -> None:
    mod, _ = from_onnx(_causal(np.random.default_rng(seed))[0])
    assert "strided_slice" in operator_names(mod["main"].body)
    rewritten = fx.passes.RewriteGraph()(mod)
    assert "strided_slice" not in operator_names(rewritten["main"].body)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_numbers(seed: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, feeds = _causal(np.random.default_rng(seed))
    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    mod, params = from_onnx(model)
    library = fx.build(mod, "llvm -mcpu=native", params=params)
    executor = GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", feeds["x"])
    executor.run()
    assert_close(executor.get_output(0).numpy(), expected, str(seed), TOLERANCE)
