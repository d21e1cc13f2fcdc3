"""The types that ONNX infers for a node's results, to compare with ours."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from tvm_fusionx.frontend.element_types import STORED_WIDER, element_type_name
from tvm_fusionx.frontend.node import ASK_SUPPORT, DOES_NOT_FIT, Node
from tvm_fusionx.frontend.schemas import schema_of
from tvm_fusionx.frontend.values import Tensor, Value

logger = logging.getLogger(__name__)

MESSAGE_CHARACTERS = 300

# ONNX counts a window that starts behind the data, which ONNX Runtime and PyTorch do not make.
WITH_CEIL_MODE = ("AveragePool", "LpPool", "MaxPool")

# ONNX's inference takes the attribute that is left out for 0 and not for its default.
READS_NO_DEFAULT = {"STFT": {"onesided": 1}}


def _with_defaults(proto: Any) -> Any:
    missing = READS_NO_DEFAULT.get(proto.op_type, {}).keys() - {a.name for a in proto.attribute}
    if not missing:
        return proto
    copy = onnx.NodeProto.FromString(proto.SerializeToString())
    defaults = READS_NO_DEFAULT[proto.op_type]
    copy.attribute.extend(helper.make_attribute(name, defaults[name]) for name in missing)
    return copy


def inferred_types(proto: Any, node: Node, opsets: Mapping[str, int]) -> dict[str, Any]:
    """Return ``onnx.TypeProto`` by output name, where ONNX can tell.

    Raises
    ------
    UnsupportedOperatorError
        If the inputs' types do not suit the operator, in ONNX's words.
    """
    schema = schema_of(proto.op_type, proto.domain, opsets.get("", 1))
    if proto.domain not in ("", "ai.onnx") or schema is None:
        return {}
    types = {n: type_proto(v) for n, v in zip(proto.input, node.inputs, strict=True) if n}
    data = {
        n: numpy_helper.from_array(np.asarray(v.array), n)
        for n, v in zip(proto.input, node.inputs, strict=True)
        if n
        and isinstance(v, Tensor)
        and v.array is not None
        and is_small(v.array)
        and not v.is_narrow
    }
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        return dict(
            shape_inference.infer_node_outputs(
                schema, _with_defaults(proto), types, data, opset_imports=imports
            )
        )
    except shape_inference.InferenceError as error:
        found = " ".join(str(error).split())[-MESSAGE_CHARACTERS:]
        expected = "inputs whose types suit the operator"
        raise node.refuse(expected, found, DOES_NOT_FIT) from error
    except Exception as error:
        # A missing type or a value of a kind that inference does not take says nothing.
        logger.debug("no types inferred for %s: %s", node.name, error)
        return {}


def check_types(
    proto: Any, node: Node, results: Sequence[Value], opsets: Mapping[str, int]
) -> None:
    """Compare the results' types with those that ONNX infers: the last guard.

    Raises
    ------
    UnsupportedOperatorError
        If they differ.
    """
    if not any(isinstance(r, Tensor) and r.array is None for r in results):
        return
    inferred = inferred_types(proto, node, opsets)
    for name, result in zip(proto.output, results, strict=False):
        if name in inferred and isinstance(result, Tensor):
            if node.op_type in WITH_CEIL_MODE and node.attribute("ceil_mode", 0):
                inferred[name].tensor_type.ClearField("shape")
            why = why_not_of_type(result, inferred[name])
            if why is not None:
                raise node.refuse("a result of " + why[0], why[1], ASK_SUPPORT)


def is_small(array: Any) -> bool:
    """Tell whether `array` can be shape data; larger ones need not be handed to shape inference."""
    largest_rank = 64
    return bool(array.size <= largest_rank)


def type_proto(value: Value) -> Any:
    """Return the ONNX type of a value."""
    if isinstance(value, Tensor):
        return helper.make_tensor_type_proto(value.element, value.dims)
    if isinstance(value, list) and value:
        item = helper.make_tensor_type_proto(value[0].element, None)
        return helper.make_sequence_type_proto(item)
    return onnx.TypeProto()


def why_not_of_type(tensor: Tensor, inferred: Any) -> tuple[str, str] | None:
    """Return (expected, found) where a translated tensor is not what ONNX infers, else None."""
    if not inferred.HasField("tensor_type"):
        return None
    element = inferred.tensor_type.elem_type
    if STORED_WIDER.get(element) == tensor.dtype:
        tensor.element = element
    if element != tensor.element:
        return f"element type {element_type_name(element)}", element_type_name(tensor.element)
    if not inferred.tensor_type.HasField("shape"):
        return None
    dims = inferred.tensor_type.shape.dim
    fits = len(dims) == tensor.rank and all(
        size is None or not dim.HasField("dim_value") or dim.dim_value == size
        for dim, size in zip(dims, tensor.dims, strict=True)
    )
    if fits:
        return None
    shown = [dim.dim_value if dim.HasField("dim_value") else "?" for dim in dims]
    return f"shape {shown}", tensor.shape_text
