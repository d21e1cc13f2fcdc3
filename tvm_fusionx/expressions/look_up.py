"""What a byte becomes, looked up in a table of 256, as one operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relay, te, tir
from tvm.relay.op.op import OpPattern

from tvm_fusionx._tvm.registry import register_operator

LOOK_UP = "fusionx.look_up"


def register_look_up() -> None:
    """Make the operator known to Relay; idempotent.

    Operands are bytes of any shape and a table: element ``i`` is what the byte of bits ``i``
    becomes. The result has the shape of the bytes, and the type of the table.
    """
    register_operator(
        LOOK_UP,
        {"data": "The bytes.", "table": "What each of the 256 becomes."},
        _compute,
        pattern=OpPattern.ELEMWISE,
        type_relation=_type,
    )


def _compute(attrs: Any, inputs: Sequence[Any], out_type: Any) -> list[Any]:
    data, table = inputs

    def entry(*place: Any) -> Any:
        byte = data(*place)
        bits = byte if byte.dtype == "uint8" else tir.reinterpret("uint8", byte)
        return table[bits.astype("int32")]

    return [te.compute(data.shape, entry, name="look_up")]


def _type(operands: Sequence[Any], attrs: Any) -> Any:
    if not all(isinstance(each, relay.TensorType) for each in operands):
        return None
    data, table = operands
    return relay.TensorType(data.shape, table.dtype)
