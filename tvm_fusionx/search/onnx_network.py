"""A candidate as an ONNX model, with trained weights or random ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvm_fusionx.errors import ModelError
from tvm_fusionx.search.networks import EPSILON, input_of, layers_of, run_layers
from tvm_fusionx.search.space import candidate_text

# The first with Gelu.
OPSET = 20
# Of files: what ONNX Runtime 1.20 reads.
IR_VERSION = 10

INPUT, OUTPUT = "x", "logits"
# Random weights are rows of one table: their values decide nothing, and drawing them takes longer
# than all else.
TABLE = 1 << 16


def onnx_network(
    candidate: Mapping[str, Any],
    weights: Mapping[str, np.ndarray] | None = None,
    *,
    batch: int = 1,
) -> onnx.ModelProto:
    """Return a candidate as a model with input ``x`` and output ``logits``.

    Parameters
    ----------
    weights
        Arrays by name, as :meth:`tvm_fusionx.search.torch_network.TorchNetwork.arrays` gives them;
        random ones of the same shapes by default.
    batch
        Extent of the first axis.

    Raises
    ------
    ModelError
        A weight is missing, or has another shape.
    """
    ops = OnnxOps(weights, batch)
    shape, dtype = input_of(candidate, batch)
    result = run_layers(layers_of(candidate), ops, INPUT)
    ops.nodes.append(helper.make_node("Identity", [result], [OUTPUT]))
    kinds = {"int64": onnx.TensorProto.INT64, "float32": onnx.TensorProto.FLOAT}
    graph = helper.make_graph(
        ops.nodes,
        "candidate",
        [helper.make_tensor_value_info(INPUT, kinds[dtype], shape)],
        [
            helper.make_tensor_value_info(
                OUTPUT, onnx.TensorProto.FLOAT, (batch, candidate["fixed"]["classes"])
            )
        ],
        ops.constants,
        doc_string=candidate_text(candidate),
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return model


ACTIVATION_NODES: dict[str, tuple[str, dict[str, str]]] = {
    "relu": ("Relu", {}),
    "gelu": ("Gelu", {"approximate": "none"}),
    "gelu_tanh": ("Gelu", {"approximate": "tanh"}),
    "hard_swish": ("HardSwish", {}),
}
"""Activations that are one node; ONNX has no swish before operator set 24."""


class OnnxOps:
    """The operators of :class:`tvm_fusionx.search.networks.Ops` as nodes; tensors are names.

    A node's name begins with its layer's, so that of a compiled kernel it is known whose it is.

    Parameters
    ----------
    weights
        Arrays by name; random ones where None.
    batch
        Extent of the first axis.
    """

    def __init__(self, weights: Mapping[str, np.ndarray] | None, batch: int = 1) -> None:
        self.weights, self.batch = weights, batch
        self.layer = ""
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        generator = np.random.default_rng(0)
        self._table = generator.uniform(0.1, 1.0, TABLE).astype("float32")

    def embedding(self, ids: str, name: str, rows: int, width: int) -> str:
        """Return a row of a table for each integer."""
        return self._node("Gather", self._weight(name, (rows, width)), ids)

    def position(self, x: str, name: str, tokens: int, width: int) -> str:
        """Return ``x`` plus a parameter."""
        return self._node("Add", x, self._weight(name, (tokens, width)))

    def dense(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """Return a product and a bias."""
        made = self._node("MatMul", x, self._weight(f"{name}_weight", (inputs, outputs)))
        return self._node("Add", made, self._weight(f"{name}_bias", (outputs,)))

    def layer_norm(self, x: str, name: str, width: int) -> str:
        """Return `x` normalised over its last axis."""
        scale = self._weight(f"{name}_scale", (width,))
        shift = self._weight(f"{name}_shift", (width,))
        return self._node("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)

    def convolution(
        self,
        x: str,
        name: str,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int = 1,
        groups: int = 1,
    ) -> str:
        """Return a convolution, batch normalisation behind it."""
        weight = self._weight(f"{name}_weight", (outputs, inputs // groups, kernel, kernel))
        made = self._node(
            "Conv",
            x,
            weight,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )
        parts = ("scale", "shift", "mean", "variance")
        weights = [self._weight(f"{name}_{part}", (outputs,)) for part in parts]
        return self._node("BatchNormalization", made, *weights, epsilon=EPSILON)

    def matmul(self, a: str, b: str) -> str:
        """Return the product of the last two axes."""
        return self._node("MatMul", a, b)

    def add(self, a: str, b: str) -> str:
        """Return the sum."""
        return self._node("Add", a, b)

    def scale(self, x: str, factor: float) -> str:
        """Return `x` times a number."""
        return self._node("Mul", x, self._constant(np.array(factor, "float32")))

    def softmax(self, x: str) -> str:
        """Return the softmax over the last axis."""
        return self._node("Softmax", x, axis=-1)

    def activate(self, x: str, kind: str) -> str:
        """Return an activation of each element."""
        if kind == "swish":
            return self._node("Mul", x, self._node("Sigmoid", x))
        operator, attributes = ACTIVATION_NODES[kind]
        return self._node(operator, x, **attributes)

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """Return `x` with `shape` behind the batch."""
        return self._node("Reshape", x, self._constant(np.array([self.batch, *shape], "int64")))

    def transpose(self, x: str, axes: Sequence[int]) -> str:
        """Return `x` with its axes in this order."""
        return self._node("Transpose", x, perm=list(axes))

    def mean(self, x: str, axes: Sequence[int]) -> str:
        """Return the mean over axes, which vanish."""
        return self._node("ReduceMean", x, self._constant(np.array(axes, "int64")), keepdims=0)

    def _node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{self.layer}/{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def _constant(self, array: np.ndarray, name: str | None = None) -> str:
        name = name or f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def _weight(self, name: str, shape: tuple[int, ...]) -> str:
        if self.weights is None:
            return self._constant(np.resize(self._table, shape), name)
        found = self.weights.get(name)
        if found is None or found.shape != shape:
            raise ModelError(
                f"weight {name}",
                expected=f"an array {shape}",
                found="none" if found is None else str(found.shape),
                next_step="Give the weights of a module that the same candidate made.",
            )
        return self._constant(np.ascontiguousarray(found, "float32"), name)
