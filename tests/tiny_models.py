"""ONNX models small enough that compiling one takes a fraction of a second."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS, FEATURES, HIDDEN = 4, 16, 8

TARGET = "llvm -mcpu=native"


def perceptron(batch: int | str = ROWS) -> onnx.ModelProto:
    """Return fc1, relu, fc2, softmax: x [batch, 16] to y [batch, 8], in float32."""
    generator = np.random.default_rng(7)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(generator.standard_normal(shape).astype("float32"), name)

    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h1"], name="fc1", transB=1),
        helper.make_node("Relu", ["h1"], ["a1"], name="act"),
        helper.make_node("Gemm", ["a1", "w2"], ["h2"], name="fc2", transB=1),
        helper.make_node("Softmax", ["h2"], ["y"], name="prob", axis=-1),
    ]
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, FEATURES])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, HIDDEN])],
        [weight("w1", HIDDEN, FEATURES), weight("b1", HIDDEN), weight("w2", HIDDEN, HIDDEN)],
    )
    return _model(graph)


def lookup() -> onnx.ModelProto:
    """Return a table look-up with an integer and a float input, and two outputs."""
    table = np.random.default_rng(7).standard_normal((5, 6)).astype("float32")
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["row"], name="embed"),
        helper.make_node("Mul", ["row", "scale"], ["scaled"], name="scale"),
        helper.make_node("Reshape", ["scaled", "shape"], ["flat"], name="flatten"),
    ]
    graph = helper.make_graph(
        nodes,
        "lookup",
        [
            helper.make_tensor_value_info("ids", TensorProto.INT64, [3]),
            helper.make_tensor_value_info("scale", TensorProto.FLOAT, [3, 6]),
        ],
        [
            helper.make_tensor_value_info("scaled", TensorProto.FLOAT, [3, 6]),
            helper.make_tensor_value_info("flat", TensorProto.FLOAT, [18]),
        ],
        [
            numpy_helper.from_array(table, "table"),
            numpy_helper.from_array(np.array([18], "int64"), "shape"),
        ],
    )
    return _model(graph)


def save(model: onnx.ModelProto, folder: Path, name: str = "model.onnx") -> Path:
    """Write `model` into `folder` and return its path."""
    path = folder / name
    onnx.save(model, str(path))
    return path


def convolution() -> onnx.ModelProto:
    """Return conv 3x3, relu, global average: x [1, 3, 8, 8] to y [1, 4, 1, 1], in float32."""
    weight = np.random.default_rng(7).standard_normal((4, 3, 3, 3)).astype("float32")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="act"),
        helper.make_node("GlobalAveragePool", ["r"], ["y"], name="mean"),
    ]
    graph = helper.make_graph(
        nodes,
        "convolution",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 1, 1])],
        [numpy_helper.from_array(weight, "w")],
    )
    return _model(graph)


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    # The opset and IR version that every onnxruntime of the last years takes.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    return model
