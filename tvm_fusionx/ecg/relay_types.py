"""Result types of a call, asked of Relay's own type relations."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.ecg.graph import Attributes, Grouping
from tvm_fusionx.ecg.relay_attributes import to_attrs
from tvm_fusionx.ecg.types import TensorType


class DynamicTypeError(ValueError):
    """A Relay type has an unknown extent, or is not a tensor."""


def tensor_type(type_: Any) -> TensorType:
    """Return our form of a static Relay tensor type.

    Raises
    ------
    DynamicTypeError
        The type is not a tensor, or an extent is unknown.
    """
    if not isinstance(type_, relay.TensorType):
        raise DynamicTypeError(f"{type_} is not a tensor type")
    shape = []
    for extent in type_.shape:
        if not isinstance(extent, tvm.tir.IntImm):
            raise DynamicTypeError(f"{type_} has the unknown extent {extent}")
        shape.append(int(extent))
    return TensorType(tuple(shape), str(type_.dtype))


def result_types(type_: Any) -> tuple[tuple[TensorType, ...], bool]:
    """Return the tensors of a call's type, and whether it is a tuple of them."""
    if isinstance(type_, relay.TupleType):
        return tuple(tensor_type(field) for field in type_.fields), True
    return (tensor_type(type_),), False


def relay_type(type_: TensorType) -> Any:
    """Return Relay's form of a tensor type."""
    return relay.TensorType(type_.shape, type_.dtype)


def arguments(values: Sequence[Any], grouping: Grouping) -> list[Any]:
    """Return Relay call arguments: `values` with each group of them made a tuple."""
    out: list[Any] = []
    position = 0
    for group in grouping:
        if group is None:
            out.append(values[position])
            position += 1
        else:
            out.append(relay.Tuple(list(values[position : position + group])))
            position += group
    return out


# Rules write the same few calls again and again; Relay takes a millisecond for each.
_REMEMBERED_CALLS = 4096


def infer_types(
    op: str, attrs: Attributes, operands: Sequence[TensorType], grouping: Grouping
) -> tuple[tuple[TensorType, ...], bool]:
    """Return the result types of one call of `op` on tensors of the types `operands`."""
    return _infer_types(op, attrs, tuple(operands), grouping)


@functools.lru_cache(maxsize=_REMEMBERED_CALLS)
def _infer_types(
    op: str, attrs: Attributes, operands: tuple[TensorType, ...], grouping: Grouping
) -> tuple[tuple[TensorType, ...], bool]:
    variables = [
        relay.Var(f"x{position}", relay_type(type_)) for position, type_ in enumerate(operands)
    ]
    call = relay.Call(relay.op.get(op), arguments(variables, grouping), to_attrs(op, attrs))
    function = relay.Function(variables, call)
    module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    return result_types(module["main"].ret_type)
