"""ONNX models of float32 as the same nodes in float16, bfloat16 or float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

SINGLE, HALF, BRAIN = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
DOUBLE = TensorProto.DOUBLE
SINGLE_NAME = "tensor(float)"
NAMES = {HALF: "tensor(float16)", BRAIN: "tensor(bfloat16)", DOUBLE: "tensor(double)"}
ELEMENTS = {"float16": HALF, "bfloat16": BRAIN, "float64": DOUBLE}
DTYPES = {
    "float16": np.dtype("float16"),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float64": np.dtype("float64"),
}


class NotInHalvesError(Exception):
    """An operator takes or gives float32 and no float16."""


def in_halves(
    model: onnx.ModelProto, *, casts_ends: bool = False, element: int = HALF
) -> onnx.ModelProto:
    """Return a model of the same nodes in float16, or the element type of one of ``ELEMENTS``.

    Initialisers, constants and casts to float32 become float16. What an operator takes as float32
    alone (where to resize to) stays so.

    Parameters
    ----------
    casts_ends
        Keep the model's inputs and outputs float32, by casts; without, they are float16 too.

    Raises
    ------
    NotInHalvesError
        A node computes float32 and has no float16, or takes none that a node computes.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    del graph.value_info[:]
    _keep_single_operands(made, element)
    for tensor in graph.initializer:
        if not tensor.name.endswith(_KEPT):
            _narrow(tensor, element)
    for node in graph.node:
        if not any(name.endswith(_KEPT) for name in node.output):
            _narrow_attributes(node, element)
    known = {tensor.name for tensor in graph.initializer}
    inputs = [info for info in graph.input if info.name not in known and _is_single(info)]
    outputs = [info for info in graph.output if _is_single(info)]
    if not casts_ends:
        for info in (*inputs, *outputs):
            info.type.tensor_type.elem_type = element
        return made
    before = [_cast_input(graph, info.name, element) for info in inputs]
    after = [_cast_output(graph, info.name) for info in outputs]
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    return made


# How the names end of what stays float32.
_KEPT = "/single"


def _keep_single_operands(model: onnx.ModelProto, element: int) -> None:
    """Give nodes that take no halves a float32 copy of their constants; refuse the others."""
    graph = model.graph
    opsets = {each.domain: each.version for each in model.opset_import}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    made = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}
    copies: dict[str, Any] = {}
    types = _element_types(model)
    for node in graph.node:
        if not defs.has(node.op_type, node.domain):
            continue
        schema = defs.get_schema(node.op_type, opsets[node.domain], node.domain)
        for place, name in enumerate(node.input):
            if types.get(name) != SINGLE or _takes_halves(schema, schema.inputs, place, element):
                continue
            if name not in constants and name not in made:
                raise NotInHalvesError(f"{node.op_type} takes no halves as input {place}")
            copies[name + _KEPT] = constants.get(name) or made[name]
            node.input[place] = name + _KEPT
        for place, name in enumerate(node.output):
            is_single = types.get(name) == SINGLE
            if is_single and not _takes_halves(schema, schema.outputs, place, element):
                raise NotInHalvesError(f"{node.op_type} gives no halves as output {place}")
    for name, source in copies.items():
        array = numpy_helper.to_array(
            source if isinstance(source, onnx.TensorProto) else source.attribute[0].t
        )
        graph.initializer.append(numpy_helper.from_array(array, name))


def _takes_halves(schema: Any, formals: Any, place: int, element: int) -> bool:
    formal = formals[min(place, len(formals) - 1)]
    allowed = {each.type_param_str: each.allowed_type_strs for each in schema.type_constraints}
    types = allowed.get(formal.type_str, [formal.type_str])
    return SINGLE_NAME not in types or NAMES[element] in types


def _element_types(model: onnx.ModelProto) -> dict[str, int]:
    inferred = onnx.shape_inference.infer_shapes(model)
    infos = (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output)
    return {
        **{info.name: info.type.tensor_type.elem_type for info in infos},
        **{tensor.name: tensor.data_type for tensor in model.graph.initializer},
    }


def _is_single(info: onnx.ValueInfoProto) -> bool:
    return bool(info.type.tensor_type.elem_type == SINGLE)


def _narrow(tensor: onnx.TensorProto, element: int) -> None:
    if tensor.data_type != SINGLE:
        return
    dtype = next(DTYPES[name] for name, each in ELEMENTS.items() if each == element)
    largest = float(ml_dtypes.finfo(dtype).max)
    wide = numpy_helper.to_array(tensor).astype(np.float64)
    array = np.clip(wide, -largest, largest).astype(dtype)
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _narrow_attributes(node: onnx.NodeProto, element: int) -> None:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            _narrow(attribute.t, element)
        is_type = node.op_type == "Cast" and attribute.name == "to"
        if is_type and attribute.i == SINGLE:
            attribute.i = element


def _cast_input(graph: onnx.GraphProto, name: str, element: int) -> onnx.NodeProto:
    """Let all nodes read a cast of an input, and return that cast."""
    half = f"{name}/half"
    for node in graph.node:
        node.input[:] = [half if each == name else each for each in node.input]
    return helper.make_node("Cast", [name], [half], to=element)


def _cast_output(graph: onnx.GraphProto, name: str) -> onnx.NodeProto:
    """Let the node that makes an output make halves, and return the cast of these."""
    half = f"{name}/half"
    for node in graph.node:
        node.output[:] = [half if each == name else each for each in node.output]
        node.input[:] = [half if each == name else each for each in node.input]
    return helper.make_node("Cast", [half], [name], to=SINGLE)
