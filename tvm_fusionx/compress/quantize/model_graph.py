"""An ONNX model with an index: who makes a tensor, who reads it, which are constants."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT

# A node and the position of one of its inputs; -1 for what a graph within the node reads.
Edge = tuple[Any, int]
INNER = -1


class ModelGraph:
    """A model's top-level graph, indexed; the model is not changed by reading.

    Parameters
    ----------
    model
        ``ModelProto`` whose nodes have names of their own and whose constants are initializers.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.producers: dict[str, Any] = {}
        self.readers: dict[str, list[Edge]] = defaultdict(list)
        graph = model.graph
        for node in graph.node:
            self.producers.update((name, node) for name in node.output if name)
            for position, name in enumerate(node.input):
                if name:
                    self.readers[name].append((node, position))
            for name in _read_within(node):
                self.readers[name].append((node, INNER))
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        self.outputs = {info.name for info in graph.output}
        self._elements = {tensor.name: tensor.data_type for tensor in graph.initializer}
        for info in (*graph.input, *graph.value_info, *graph.output):
            self._elements[info.name] = info.type.tensor_type.elem_type
        self._arrays: dict[str, np.ndarray] = {}

    @property
    def nodes(self) -> Any:
        """Return the nodes in order."""
        return self.model.graph.node

    @property
    def inputs(self) -> list[Any]:
        """Return the inputs that must be given."""
        return [info for info in self.model.graph.input if info.name not in self.constants]

    def array(self, name: str) -> np.ndarray | None:
        """Return the value of a constant, or None."""
        if name not in self.constants:
            return None
        if name not in self._arrays:
            self._arrays[name] = numpy_helper.to_array(self.constants[name])
        return self._arrays[name]

    def is_activation(self, name: str) -> bool:
        """Tell whether a tensor is computed or given, and of float32."""
        return bool(name) and name not in self.constants and self._elements.get(name) == FLOAT

    def is_constant(self, name: str) -> bool:
        """Tell whether a tensor is a constant of float32."""
        return name in self.constants and self._elements[name] == FLOAT


def _read_within(node: Any) -> Iterator[str]:
    """Yield the names that graphs within a node read."""
    waiting = [attribute.g for attribute in node.attribute if attribute.HasField("g")]
    waiting += [graph for attribute in node.attribute for graph in attribute.graphs]
    while waiting:
        graph = waiting.pop()
        yield from (info.name for info in graph.output)
        for inner in graph.node:
            yield from (name for name in inner.input if name)
            waiting += [each.g for each in inner.attribute if each.HasField("g")]
            waiting += [each for attribute in inner.attribute for each in attribute.graphs]


def attribute(node: Any, name: str, default: Any) -> Any:
    """Return a node's attribute, or `default`."""
    for each in node.attribute:
        if each.name == name:
            return helper.get_attribute_value(each)
    return default


def with_outputs(model: Any, names: Iterable[str]) -> Any:
    """Return a model that gives the float tensors `names`, in order, and nothing else."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    del changed.graph.output[:]
    changed.graph.output.extend(helper.make_tensor_value_info(name, FLOAT, None) for name in names)
    return changed


def drop_unread(model: Any) -> None:
    """Remove initializers and types of tensors that no node reads or makes."""
    graph = model.graph
    read = {name for node in graph.node for name in (*node.input, *_read_within(node))}
    read |= {info.name for info in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)
    made = {name for node in graph.node for name in node.output}
    infos = [info for info in graph.value_info if info.name in made]
    del graph.value_info[:]
    graph.value_info.extend(infos)
