"""Small valid models of many kinds, to be damaged."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.frontend.small_models import model, value

INT64, BOOL, UINT8 = TensorProto.INT64, TensorProto.BOOL, TensorProto.UINT8


def _floats(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype("float32")


def _picture() -> Any:
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "b", "b", "b", "v"], ["n"], epsilon=1e-3),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Resize", ["p", "", "scales"], ["u"], mode="nearest"),
        helper.make_node("Pad", ["u", "pads"], ["q"], mode="reflect"),
        helper.make_node("GlobalAveragePool", ["q"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "m"], ["y"], transB=1, alpha=0.5),
        helper.make_node("ConvTranspose", ["r", "t"], ["z"], strides=[2, 2], output_padding=[1, 1]),
    ]
    weights = {
        "w": _floats(4, 3, 3, 3),
        "b": _floats(4),
        "v": np.ones(4, "float32"),
        "scales": np.array([1, 1, 2, 2], "float32"),
        "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]),
        "m": _floats(5, 4),
        "t": _floats(4, 2, 2, 2),
    }
    return model(nodes, [value("x", [1, 3, 8, 8])], ["y", "z"], weights)


def _attention() -> Any:
    nodes = [
        helper.make_node("RMSNormalization", ["x", "g"], ["n"]),
        helper.make_node("MatMul", ["n", "w"], ["q"]),
        helper.make_node("RotaryEmbedding", ["q", "cos", "sin", "ids"], ["t"], num_heads=2),
        helper.make_node(
            "Attention", ["t", "q", "n"], ["a"], q_num_heads=2, kv_num_heads=2, is_causal=1
        ),
        helper.make_node("Swish", ["a"], ["s"], alpha=1.5),
        helper.make_node("TensorScatter", ["cache", "s", "at"], ["y"], axis=1),
        helper.make_node("LayerNormalization", ["s", "g"], ["z"], axis=-1),
    ]
    weights = {"g": _floats(8), "w": _floats(8, 8), "cos": _floats(9, 2), "sin": _floats(9, 2)}
    inputs = [
        value("x", [1, 3, 8]),
        value("ids", [1, 3], INT64),
        value("cache", [1, 6, 8]),
        value("at", [1], INT64),
    ]
    return model(nodes, inputs, ["y", "z"], weights, opset=24)


def _recurrent() -> Any:
    nodes = [
        helper.make_node(
            "LSTM", ["x", "w", "r", "b"], ["a", "h", "c"], hidden_size=4, direction="bidirectional"
        ),
        helper.make_node("Squeeze", ["h", "one"], ["s"]),
        helper.make_node("GRU", ["x", "w3", "r3"], ["g"], hidden_size=4, linear_before_reset=1),
        helper.make_node("DFT", ["d", "", "axis"], ["f"], onesided=1),
    ]
    weights = {
        "w": _floats(2, 16, 3),
        "r": _floats(2, 16, 4),
        "b": _floats(2, 32),
        "one": np.array([1]),
        "w3": _floats(1, 12, 3),
        "r3": _floats(1, 12, 4),
        "axis": np.array(1),
    }
    inputs = [value("x", [3, 1, 3]), value("d", [1, 8, 1])]
    return model(nodes, inputs, ["a", "s", "g", "f"], weights, opset=20)


def _quantized() -> Any:
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["k", "ks"], ["kd"], axis=0),
        helper.make_node("Conv", ["d", "kd"], ["c"]),
        helper.make_node("MatMulInteger", ["u", "i", "zu"], ["m"]),
        helper.make_node("QLinearMatMul", ["u", "s", "zu", "i", "s", "zi", "s", "zu"], ["p"]),
    ]
    weights = {
        "s": np.float32(0.1),
        "z": np.int8(3),
        "k": np.arange(-12, 12, dtype="int8").reshape(2, 3, 2, 2),
        "ks": np.array([0.1, 0.2], "float32"),
        "i": np.arange(12, dtype="int8").reshape(3, 4),
        "zu": np.uint8(5),
        "zi": np.int8(1),
    }
    inputs = [value("x", [1, 3, 4, 4]), value("u", [2, 3], UINT8)]
    return model(nodes, inputs, ["c", "m", "p"], weights)


def _control() -> Any:
    def branch(name: str, op_type: str) -> Any:
        nodes = [helper.make_node(op_type, ["x", "w"], [name])]
        return helper.make_graph(nodes, name, [], [helper.make_empty_tensor_value_info(name)])

    body = helper.make_graph(
        [
            helper.make_node("Add", ["had", "w"], ["has"]),
            helper.make_node("Identity", ["going"], ["goes"]),
            helper.make_node("Mul", ["had", "had"], ["seen"]),
        ],
        "body",
        [value("i", [], INT64), value("going", [], BOOL), value("had", [2, 3])],
        [helper.make_empty_tensor_value_info(name) for name in ("goes", "has", "seen")],
    )
    scan = helper.make_graph(
        [helper.make_node("Add", ["t", "row"], ["u"]), helper.make_node("Neg", ["u"], ["v"])],
        "scan",
        [value("t", [3]), value("row", [3])],
        [value("u", [3]), value("v", [3])],
    )
    nodes = [
        helper.make_node(
            "If", ["flag"], ["a"], then_branch=branch("p", "Add"), else_branch=branch("q", "Sub")
        ),
        helper.make_node("Loop", ["count", "", "a"], ["l", "all"], body=body),
        helper.make_node("Scan", ["start", "x"], ["end", "rows"], body=scan, num_scan_inputs=1),
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=0),
        helper.make_node("SequenceAt", ["parts", "one"], ["part"]),
        helper.make_node("ConcatFromSequence", ["parts"], ["joined"], axis=0, new_axis=1),
    ]
    weights = {
        "w": _floats(2, 3),
        "count": np.array(2),
        "start": np.zeros(3, "float32"),
        "one": np.array(1),
    }
    inputs = [value("x", [2, 3]), value("flag", [], BOOL)]
    return model(nodes, inputs, ["l", "all", "end", "rows", "part", "joined"], weights)


def _shapes() -> Any:
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["rows"]),
        helper.make_node("Concat", ["rows", "minus"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"]),
        helper.make_node("Slice", ["flat", "zero", "five", "one"], ["cut"]),
        helper.make_node("TopK", ["cut", "two"], ["best", "places"], axis=1),
        helper.make_node("Transpose", ["x"], ["turned"], perm=[1, 0, 2]),
        helper.make_node("Split", ["turned", "sizes"], ["s", "t"], axis=0),
        helper.make_node("ReduceMean", ["s"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Softmax", ["t"], ["soft"], axis=-1),
        helper.make_node("Einsum", ["soft", "t"], ["e"], equation="abc,abd->acd"),
        helper.make_node("Expand", ["mean", "wide"], ["expanded"]),
        helper.make_node("Clip", ["expanded", "low"], ["y"]),
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(_floats(1), "c")),
        helper.make_node("Where", ["mask", "best", "c"], ["z"]),
        helper.make_node("OneHot", ["places", "depth", "hot"], ["h"], axis=-1),
        helper.make_node("CumSum", ["best", "axis"], ["sums"], exclusive=1),
        helper.make_node("ScatterElements", ["best", "places", "best"], ["scattered"], axis=1),
    ]
    weights = {
        "zero": np.array([0]),
        "minus": np.array([-1]),
        "five": np.array([5]),
        "one": np.array([1]),
        "two": np.array([2]),
        "sizes": np.array([1, 2]),
        "wide": np.array([3, 1, 4]),
        "low": np.float32(-0.5),
        "mask": np.array([[True], [False]]),
        "depth": np.array(12),
        "hot": np.array([0, 1], "float32"),
        "axis": np.array(1),
    }
    outputs = ["e", "y", "z", "h", "sums", "scattered"]
    return model(nodes, [value("x", [2, 3, 4])], outputs, weights, opset=17)


def _with_function() -> Any:
    body = helper.make_function(
        "com.example",
        "Twice",
        ["a"],
        ["b"],
        [helper.make_node("Add", ["a", "a"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("Twice", ["x"], ["t"], domain="com.example"),
        helper.make_node("Gelu", ["t"], ["g"], domain="com.microsoft"),
        helper.make_node("HardSwish", ["g"], ["h"]),
        helper.make_node("GroupNormalization", ["h", "s", "s"], ["y"], num_groups=2),
    ]
    domains = ["com.example", "com.microsoft"]
    weights = {"s": np.ones(2, "float32")}
    given = model(nodes, [value("x", [1, 4, 3])], ["y"], weights, opset=18, domains=domains)
    given.functions.append(body)
    return given


def valid_models() -> dict[str, onnx.ModelProto]:
    """Return all by name; the importer takes every one."""
    return {
        "picture": _picture(),
        "attention": _attention(),
        "recurrent": _recurrent(),
        "quantized": _quantized(),
        "control": _control(),
        "shapes": _shapes(),
        "function": _with_function(),
    }
