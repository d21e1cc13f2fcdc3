"""The layers of an ONNX model that might reuse products, as the compiler sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_fusionx.build.pipeline import phases
from tvm_fusionx.compress.quantize.model_graph import ModelGraph
from tvm_fusionx.ecg import from_relay
from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.frontend.from_onnx import from_onnx
from tvm_fusionx.layout import pack_convolutions
from tvm_fusionx.layout.blocked_convolution import DENSE_BLOCKED
from tvm_fusionx.layout.similar import (
    PRODUCTS,
    reuse_layer,
    row_weights,
    why_not_reused,
)
from tvm_fusionx.layout.sparse import dense_cycles, layer_of
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.report.sparsity.layers import BEHIND
from tvm_fusionx.reuse.choice import Choice
from tvm_fusionx.reuse.layer import ReuseLayer


@dataclass(frozen=True)
class Layer:
    """A product with constant weights, and the tensor of the ONNX model that it multiplies.

    Attributes
    ----------
    name, tensor
        Of the ONNX node, and of its data.
    node
        The call in the compiler's graph.
    reason
        Why it cannot reuse products; None where it can.
    """

    name: str
    tensor: str
    node: Node
    reason: str | None = None

    @property
    def is_window(self) -> bool:
        """Whether it is a convolution."""
        return bool(self.node.op == DENSE_BLOCKED)

    @property
    def run_and_depth(self) -> tuple[int, int]:
        """Numbers that lie side by side in a row of the unfolded data, and channels of it."""
        shape = self.node.operands[0].shape
        if not self.is_window:
            return shape[-1], shape[-1]
        depth = shape[1] * shape[-1]
        is_joined = int(self.node.attrs["dilation"][1]) == 1
        return depth * (int(self.node.operands[1].shape[3]) if is_joined else 1), depth

    def columns_in(self, length: int) -> list[tuple[int, int]]:
        """Return the first and last column of each segment of such a length."""
        run, _ = self.run_and_depth
        whole = len(self.weights)
        return [
            (start + at, min(start + at + length, start + run))
            for start in range(0, whole, run)
            for at in range(0, run, length)
        ]

    @property
    def weights(self) -> np.ndarray:
        """``[columns, O]``."""
        return row_weights(self.node)

    def reused(self, choice: Choice) -> ReuseLayer:
        """Return the layer with a choice, which fits it."""
        found = reuse_layer(self.node, choice)
        assert isinstance(found, ReuseLayer), found
        return found

    def as_image(self, data: np.ndarray) -> np.ndarray:
        """Return the data as an image ``[N, C, H, W]``; rows of a matrix are pixels."""
        if self.is_window:
            return data
        return np.ascontiguousarray(data.reshape(-1, data.shape[-1]).T[None, :, :, None])

    def dense_cycles(self, cpu: Cpu) -> float:
        """Return the estimate of the fastest way to compute all products."""
        return dense_cycles(layer_of(self.node, cpu), cpu)


def find_layers(
    graph: ModelGraph, shape: Mapping[str, tuple[int, ...]], target: Any, cpu: Cpu
) -> list[Layer]:
    """Return the products of a model in their order, each with why it cannot reuse any.

    Parameters
    ----------
    graph
        The model, every node of which has a name of its own.
    shape
        Of the inputs.
    target, cpu
        What is built for.
    """
    mod, _ = from_onnx(graph.model, shape=dict(shape))
    order = phases(target).without(*BEHIND).sequential("tvm_fusionx.compress.similar")
    compiled = from_relay(order(mod)["main"])
    pack_convolutions(compiled, cpu)
    nodes = {node.name: node for node in graph.nodes}
    found = []
    for node in compiled.calls():
        if node.op not in PRODUCTS or node.name not in nodes:
            continue
        tensor = str(nodes[node.name].input[0])
        reason = why_not_reused(node)
        if reason is None and not graph.is_activation(tensor):
            reason = "its ONNX node multiplies a constant by the data, and not the data by it"
        found.append(Layer(node.name, tensor, node, reason))
    return found
