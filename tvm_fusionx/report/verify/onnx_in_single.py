"""An ONNX model in bfloat16 as the same nodes in float32, for ONNX Runtime.

On CPUs it has hardly a kernel for bfloat16. What such a model should give is what it gives in
float32, rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import is_brain
from tvm_fusionx.errors import FusionXError

# Attributes that hold an element type.
TYPES = frozenset(
    ["dtype", "output_datatype", "output_dtype", "softmax_precision", "stash_type", "to"]
)


def onnx_in_single(source: str | bytes) -> bytes | None:
    """Return a model with float32 in the place of bfloat16.

    Parameters
    ----------
    source
        A file or the bytes of one.

    Returns
    -------
    bytes or None
        None where it holds no bfloat16, or is no model that can be read.
    """
    from tvm_fusionx.frontend.read_model import read_model

    try:
        made = read_model(source)
    except FusionXError:
        return None
    changed = [_widened_type(info) for graph in _graphs(made) for info in _infos(graph)]
    for graph in _graphs(made):
        changed += [_widened_tensor(tensor) for tensor in graph.initializer]
    for node in _nodes(made):
        changed += [_widened_attribute(attribute) for attribute in node.attribute]
    return bytes(made.SerializeToString()) if any(changed) else None


def inputs_in_single(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays with float32 in the place of bfloat16."""
    return {
        name: array.astype(np.float32) if is_brain(array) else array
        for name, array in inputs.items()
    }


def _graphs(model: Any) -> Iterator[Any]:
    """Yield a model's graph, and those within it."""
    yield model.graph
    for node in _nodes(model):
        for attribute in node.attribute:
            yield from [attribute.g] if attribute.HasField("g") else attribute.graphs


def _nodes(model: Any) -> Iterator[Any]:
    waiting = [*model.graph.node, *(node for func in model.functions for node in func.node)]
    while waiting:
        node = waiting.pop()
        yield node
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else attribute.graphs
            waiting += [each for graph in inner for each in graph.node]


def _infos(graph: Any) -> Iterator[Any]:
    yield from graph.input
    yield from graph.output
    yield from graph.value_info


def _widened_type(info: Any) -> bool:
    from onnx import TensorProto

    kind = info.type
    while kind.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = getattr(kind, kind.WhichOneof("value")).elem_type
    if kind.tensor_type.elem_type != TensorProto.BFLOAT16:
        return False
    kind.tensor_type.elem_type = TensorProto.FLOAT
    return True


def _widened_tensor(tensor: Any) -> bool:
    from onnx import TensorProto, numpy_helper

    if tensor.data_type != TensorProto.BFLOAT16:
        return False
    numbers = numpy_helper.to_array(tensor).astype(np.float32)
    tensor.CopyFrom(numpy_helper.from_array(numbers, tensor.name))
    return True


def _widened_attribute(attribute: Any) -> bool:
    from onnx import TensorProto

    if attribute.name in TYPES and attribute.i == TensorProto.BFLOAT16:
        attribute.i = TensorProto.FLOAT
        return True
    tensors = [*attribute.tensors, *([attribute.t] if attribute.HasField("t") else [])]
    return any([_widened_tensor(tensor) for tensor in tensors])
