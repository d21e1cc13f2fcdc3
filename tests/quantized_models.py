"""Small quantized models, made by ONNX Runtime's own tool, and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from tvm import relay

import tvm_fusionx as fx
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.phases import Phase
from tvm_fusionx.passes import RewriteQuantized
from tvm_fusionx.schedules import resolve_target

OPSET = 19
CALIBRATION_RUNS = 2


class _Calibration(CalibrationDataReader):  # type: ignore[misc]
    """Seeded random inputs."""

    def __init__(self, shape: Sequence[int]) -> None:
        generator = np.random.default_rng(0)
        arrays = [generator.normal(size=shape) for _ in range(CALIBRATION_RUNS)]
        self._feeds = iter([{"x": array.astype("float32")} for array in arrays])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._feeds, None)


class Layers:
    """A model of one input, written layer by layer.

    Parameters
    ----------
    shape
        Of the input ``x``.
    """

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self._nodes: list[Any] = []
        self._weights: list[Any] = []
        self._generator = np.random.default_rng(1)

    def weights(self, *shape: int) -> str:
        """Add random weights; each output channel is of another size."""
        array = self._generator.normal(size=shape) / np.sqrt(max(1, np.prod(shape[1:])))
        return self.constant(array.astype("float32"))

    def constant(self, array: np.ndarray) -> str:
        """Add an initializer."""
        name = f"w{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its result."""
        name = f"y{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x: str, outputs: int, inputs: int, kernel: int, **attributes: Any) -> str:
        """Add a convolution with a bias."""
        weights = self.weights(outputs, inputs // attributes.get("group", 1), kernel, kernel)
        pads = [kernel // 2] * 4
        return self.add("Conv", x, weights, self.weights(outputs), pads=pads, **attributes)

    def model(self, output: str) -> Any:
        """Return the model of floats that ends in `output`."""
        graph = helper.make_graph(
            self._nodes,
            "layers",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)],
            [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
            self._weights,
        )
        opset = [helper.make_opsetid("", OPSET)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(graph, opset_imports=opset, ir_version=9)
        )

    def quantized(
        self,
        output: str,
        folder: Path,
        *,
        activations: str = "QUInt8",
        per_channel: bool = True,
        symmetric: bool = False,
    ) -> Any:
        """Return the model with quantizations and dequantizations, calibrated on random inputs."""
        paths = folder / "float.onnx", folder / "quantized.onnx"
        onnx.save(self.model(output), paths[0])
        quantize_static(
            paths[0],
            paths[1],
            _Calibration(self.shape),
            quant_format=QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=QuantType[activations],
            weight_type=QuantType.QInt8,
            extra_options={"ActivationSymmetric": symmetric},
        )
        return onnx.load(paths[1])

    def input(self) -> np.ndarray:
        """Return a seeded random input."""
        return np.random.default_rng(2).normal(size=self.shape).astype("float32")


def meaning(model: Any, x: np.ndarray) -> np.ndarray:
    """Return what a quantized model means: every node on its own, as ONNX defines it, in doubles.

    In floats of 32 bits a mean of four integers, which lies at a half in every fourth case, would
    be rounded by chance.
    """
    feeds = {"x": x.astype("float64")}
    result: np.ndarray = ReferenceEvaluator(_of_doubles(model)).run(None, feeds)[0]
    return result


def _of_doubles(model: Any) -> Any:
    """Return a model whose floats are doubles of the same values."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    graph = changed.graph
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for tensor in graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            array = numpy_helper.to_array(tensor).astype("float64")
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return changed


def step_of_last(model: Any) -> float:
    """Return the scale of the last dequantization: one step of the result."""
    last = [node for node in model.graph.node if node.op_type == "DequantizeLinear"][-1]
    arrays = {each.name: numpy_helper.to_array(each) for each in model.graph.initializer}
    return float(arrays[last.input[1]])


def on_integers(target: Any) -> Any:
    """Return the pass that multiplies integers wherever there is a kernel, whatever it costs."""
    return RewriteQuantized(target, lambda graph, node, data: None)


def build_on_integers(mod: Any, target: Any, params: Any = None) -> Any:
    """Build as ``fx.build`` does, but on integers wherever there is a kernel."""
    resolved = resolve_target(target)
    chosen = Phase("quantized", (on_integers(resolved),))
    passes = fx.phases(resolved).replaced("quantized", chosen).sequential("integers")
    with fx.lowering(resolved):
        return relay.build(passes(bind_parameters(mod, params)), resolved)
