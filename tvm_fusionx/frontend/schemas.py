"""What ONNX says of an operator: how many inputs it takes, which attributes, and their defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import onnx
from onnx import defs

from tvm_fusionx.frontend.evaluate import attribute_value

UNBOUNDED = 2**31 - 1


@cache
def schema_of(op_type: str, domain: str, opset: int) -> Any:
    """Return the operator's definition in an opset, or None where there is none.

    Parameters
    ----------
    domain
        Empty, or ``ai.onnx``, for ONNX's own.
    """
    domain = "" if domain == "ai.onnx" else domain
    try:
        return defs.get_schema(op_type, opset, domain)
    except defs.SchemaError:
        return None


def read_attributes(proto: Any) -> dict[str, Any]:
    """Return a node's attributes, decoded.

    Raises
    ------
    ValueError
        If one is damaged: of no type, or a tensor that lacks elements.
    """
    return {attribute.name: attribute_value(attribute) for attribute in proto.attribute}


@cache
def _defaults(schema: Any) -> dict[str, Any]:
    return {
        name: attribute_value(attribute.default_value)
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }


def defaults_of(schema: Any) -> Mapping[str, Any]:
    """Return the values of attributes that a node leaves out, where the schema has one."""
    return {} if schema is None else _defaults(schema)


def _show_attribute_type(kind: Any) -> str:
    return str(onnx.AttributeProto.AttributeType.Name(int(kind)))


def _count(least: int, most: int, thing: str) -> str:
    if most >= UNBOUNDED:
        return f"at least {least} {thing}"
    return f"{least} {thing}" if least == most else f"{least} to {most} {thing}"


def why_not_of_schema(proto: Any, schema: Any) -> tuple[str, str] | None:
    """Return (expected, found) where a node does not obey its operator's definition, else None."""
    if schema is None:
        return None
    for attribute in proto.attribute:
        known = schema.attributes.get(attribute.name)
        if known is None:
            names = ", ".join(sorted(schema.attributes)) or "none"
            return f"attributes among: {names}", f"the attribute {attribute.name!r}"
        if int(attribute.type) != int(known.type.value):
            return (
                f"attribute {attribute.name!r} of type {_show_attribute_type(known.type.value)}",
                _show_attribute_type(attribute.type),
            )
    given = {attribute.name for attribute in proto.attribute}
    for name, known in schema.attributes.items():
        if known.required and name not in given:
            return f"the attribute {name!r}, which has no default", "none"
    inputs = (proto.input, schema.inputs, schema.min_input, schema.max_input)
    outputs = (proto.output, schema.outputs, schema.min_output, schema.max_output)
    return _why_not_so_many("inputs", *inputs) or _why_not_so_many("outputs", *outputs)


def _why_not_so_many(
    side: str, names: Sequence[str], formal: Sequence[Any], least: int, most: int
) -> tuple[str, str] | None:
    if not least <= len(names) <= most:
        return _count(least, most, side), str(len(names))
    if side == "outputs":
        return None  # an output that nobody reads may be left out
    single = defs.OpSchema.FormalParameterOption.Single
    for position, parameter in enumerate(formal):
        if parameter.option == single and position < len(names) and not names[position]:
            return f"input {parameter.name!r}, which is not optional", "none"
    return None
