"""Operators that ONNX itself defines by a graph of simpler ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx
from onnx import defs

from tvm_fusionx.frontend.schemas import schema_of


def has_function_body(op_type: str, domain: str, version: int) -> bool:
    """Tell whether ONNX defines this operator by a function body."""
    schema = schema_of(op_type, domain, version)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


def local_functions(model: Any) -> dict[tuple[str, str], Any]:
    """Return the functions that a model brings along, by domain and name."""
    return {(function.domain, function.name): function for function in model.functions}


def expand_local_function(proto: Any, function: Any) -> tuple[Any, dict[str, int]]:
    """Return the body of a function of the model, a node's attributes filled in, and its opsets."""
    body = onnx.FunctionProto()
    body.CopyFrom(function)
    values = {attribute.name: attribute for attribute in function.attribute_proto}
    values.update({attribute.name: attribute for attribute in proto.attribute})
    _fill_in_attributes(body.node, values)
    opsets = {o.domain if o.domain != "ai.onnx" else "": o.version for o in body.opset_import}
    return body, opsets


def _newest_at_most(versions: Sequence[int], opset: int) -> int:
    return max((v for v in versions if v <= opset), default=min(versions))


def expand_function(
    proto: Any, types: Sequence[Any], opsets: Mapping[str, int]
) -> tuple[Any, dict[str, int]]:
    """Return the function body of a node, its attributes filled in, and the body's opsets.

    Parameters
    ----------
    proto
        The ``onnx.NodeProto`` to expand.
    types
        ``onnx.TypeProto`` of every input.
    opsets
        Opset version per domain, of the model.

    Returns
    -------
    body : onnx.FunctionProto
    opsets : dict of str to int
    """
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    opset = opsets.get(domain, 1)
    schema = defs.get_schema(proto.op_type, opset, domain)
    if schema.has_context_dependent_function:
        version = _newest_at_most(schema.context_dependent_function_opset_versions, opset)
        content = schema.get_context_dependent_function_with_opset_version(
            version, proto.SerializeToString(), [t.SerializeToString() for t in types]
        )
    else:
        version = _newest_at_most(schema.function_opset_versions, opset)
        content = schema.get_function_with_opset_version(version)
    body = onnx.FunctionProto.FromString(content)
    values = {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    values.update({attribute.name: attribute for attribute in proto.attribute})
    _fill_in_attributes(body.node, values)
    return body, {o.domain: o.version for o in body.opset_import}


def _fill_in_attributes(nodes: Any, values: Mapping[str, Any]) -> None:
    """Replace references to the function's attributes by their values, in subgraphs too."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        filled = []
        for attribute in node.attribute:
            if attribute.HasField("g"):
                waiting.extend(attribute.g.node)
            if not attribute.ref_attr_name:
                filled.append(attribute)
            elif attribute.ref_attr_name in values:
                value = onnx.AttributeProto.FromString(
                    values[attribute.ref_attr_name].SerializeToString()
                )
                value.name = attribute.name
                filled.append(value)
        kept = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in filled]
        del node.attribute[:]
        node.attribute.extend(kept)
