"""ONNX models with shapes or branches that the data decides, held to ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import tvm_fusionx as fx
from tests.frontend.small_models import model, value
from tests.tiny_models import TARGET
from tvm_fusionx.build.vm_program import VmProgram

Feeds = Mapping[str, np.ndarray]

TOLERANCE = 1e-5


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def made(
    nodes: Sequence[Any],
    feeds: Feeds,
    outputs: Sequence[str],
    weights: Mapping[str, Any] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """Return a model with inputs like `feeds`."""
    inputs = [
        value(name, array.shape, helper.np_dtype_to_tensor_dtype(array.dtype))
        for name, array in feeds.items()
    ]
    return model(nodes, inputs, outputs, weights, opset)


def by_onnxruntime(given: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(given.SerializeToString(), options)
    return [np.asarray(each) for each in session.run(None, dict(feeds))]


def built(given: onnx.ModelProto) -> VmProgram:
    mod, params = fx.from_onnx(given)
    program = fx.build(mod, TARGET, params=params)
    assert isinstance(program, VmProgram)
    return program


def assert_agrees(given: onnx.ModelProto, *feeds: Feeds) -> VmProgram:
    """Build once, and compare shapes, types and numbers for each of the inputs."""
    program = built(given)
    for each in feeds:
        found, wanted = program.run(**each), by_onnxruntime(given, each)
        for place, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
            assert ours.dtype == theirs.dtype, f"output {place}"
            assert ours.shape == theirs.shape, f"output {place}"
            np.testing.assert_allclose(ours, theirs, TOLERANCE, TOLERANCE, err_msg=f"{place}")
    return program


def suppressing(**attributes: Any) -> onnx.ModelProto:
    """Return the best boxes of three classes: scores in, rows of image, class and box out."""
    node = helper.make_node("NonMaxSuppression", list("bsmit"), ["y"], name="nms", **attributes)
    weights = {
        "m": np.array([5]),
        "i": np.array([0.5], "float32"),
        "t": np.array([0.1], "float32"),
    }
    return made([node], {"b": floats(1, 20, 4), "s": floats(1, 3, 20)}, ["y"], weights)


def boxes_and_scores(seed: int = 0) -> dict[str, np.ndarray]:
    return {"b": np.abs(floats(1, 20, 4, seed=seed)), "s": np.abs(floats(1, 3, 20, seed=seed + 1))}


def branching() -> onnx.ModelProto:
    """Return x or two of it, by the sign of its sum: x [4] to [4] or [8]."""

    def graph(name: str, node: Any, output: str) -> Any:
        return helper.make_graph([node], name, [], [helper.make_empty_tensor_value_info(output)])

    twice = graph("twice", helper.make_node("Concat", ["a", "a"], ["t"], axis=0), "t")
    once = graph("once", helper.make_node("Mul", ["a", "half"], ["o"]), "o")
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["is_positive"]),
        helper.make_node(
            "If", ["is_positive"], ["y"], "choose", then_branch=twice, else_branch=once
        ),
        helper.make_node("Relu", ["y"], ["z"]),
    ]
    weights = {"zero": np.float32(0), "half": np.float32(0.5)}
    return made(nodes, {"x": floats(4)}, ["z"], weights)


def looping() -> onnx.ModelProto:
    """Return x doubled until its sum is large, and the sums on the way: x [4] to [4], [?]."""
    scalar = [
        helper.make_tensor_value_info("step", TensorProto.INT64, []),
        helper.make_tensor_value_info("on", TensorProto.BOOL, []),
        value("a", [4]),
    ]
    body = helper.make_graph(
        [
            helper.make_node("Mul", ["a", "two"], ["b"]),
            helper.make_node("ReduceSum", ["b"], ["s"], keepdims=0),
            helper.make_node("Less", ["s", "limit"], ["more"]),
        ],
        "body",
        scalar,
        [
            helper.make_tensor_value_info("more", TensorProto.BOOL, []),
            value("b", [4]),
            value("s", []),
        ],
    )
    nodes = [
        helper.make_node("Abs", ["x"], ["start"]),
        helper.make_node("Loop", ["", "yes", "start"], ["y", "sums"], "double", body=body),
    ]
    weights = {"two": np.float32(2), "limit": np.float32(1000), "yes": np.array(True)}
    return made(nodes, {"x": floats(4)}, ["y", "sums"], weights)
