"""Bytes that become wider integers, less a zero point, before something reads them.

A quantized tensor is stored as bytes. What multiplies it 16 bits at a time reads ``int16(x) - z``;
a kernel that knows this form makes it in registers of the bytes that it loads.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.tir.block import BlockInfo

BYTES = ("int8", "uint8")


@dataclass(frozen=True)
class Widening:
    """Stages that write ``x + number - number`` of a buffer of bytes, in wider integers."""

    source: Any
    """The buffer of bytes."""

    added: tuple[Any, ...]
    """Numbers that are added to each element: constants, or loads of a scalar."""

    subtracted: tuple[Any, ...]
    """Numbers that are taken away."""

    stages: tuple[str, ...]
    """Names of the stages, the one that reads `source` first."""

    def of(self, element: Any, dtype: str) -> Any:
        """Return what is made of `element`, a load from `source`, as `dtype`.

        Exact in any type that holds the sums: a byte less a zero point fits the stages' 16 bits.
        """
        lanes = tvm.DataType(dtype).lanes
        wide = element.astype(dtype)
        for number in self.added:
            wide = wide + _each(number, dtype, lanes)
        for number in self.subtracted:
            wide = wide - _each(number, dtype, lanes)
        return wide


def _each(number: Any, dtype: str, lanes: int) -> Any:
    """Return a vector of one number."""
    scalar = number.astype(dtype.split("x")[0])
    return tir.Broadcast(scalar, lanes) if lanes > 1 else scalar


def find_widening(info: BlockInfo, buffer: Any, before: Collection[str]) -> Widening | str:
    """Return stages `before` as what widens bytes into `buffer`, or why they are something else."""
    writer = {each.data: name for name, stage in info.stages.items() for each in stage.writes}
    constants = _constants(info)
    names: list[str] = []
    added: list[Any] = []
    subtracted: list[Any] = []
    while buffer.data in writer:
        name = writer[buffer.data]
        source = _step(info.stages[name].block, constants, added, subtracted)
        if source is None:
            return f"{name} does not widen integers element by element"
        names.append(name)
        buffer = source
    if str(buffer.dtype) not in BYTES:
        return f"it is made of {buffer.dtype}"
    if set(names) != {name for name in before if info.stages[name].reads}:
        return "something else is computed before it"
    return Widening(buffer, tuple(added), tuple(subtracted), tuple(reversed(names)))


def _constants(info: BlockInfo) -> dict[Any, Any]:
    """Return the integers that are stages of their own, by the variables of their buffers."""
    written = {}
    for stage in info.stages.values():
        value = getattr(stage.block.body, "value", None)
        if not stage.reads and isinstance(value, tir.IntImm):
            written[stage.writes[0].data] = value
    return written


def _step(
    block: Any, constants: dict[Any, Any], added: list[Any], subtracted: list[Any]
) -> Any | None:
    """Return the buffer of integers that a block reads in place; None where it does anything else.

    What it adds and takes away is put into the lists.
    """
    store = block.body
    if not isinstance(store, tir.BufferStore) or "int" not in str(store.value.dtype):
        return None
    value = store.value
    while not isinstance(value, tir.BufferLoad):
        if isinstance(value, tir.Cast):
            value = value.value
        elif isinstance(value, tir.Add | tir.Sub):
            number = _number(value.b, constants)
            if number is None:
                return None
            (added if isinstance(value, tir.Add) else subtracted).append(number)
            value = value.a
        else:
            return None
        if "int" not in str(value.dtype):
            return None
    is_in_place = len(value.indices) == len(store.indices) and all(
        tvm.ir.structural_equal(here, there)
        for here, there in zip(value.indices, store.indices, strict=True)
    )
    return value.buffer if is_in_place else None


def _number(expr: Any, constants: dict[Any, Any]) -> Any | None:
    """Return an integer that is the same for every element; None where it is not."""
    if isinstance(expr, tir.IntImm):
        return expr
    if not isinstance(expr, tir.BufferLoad):
        return None
    if expr.buffer.data in constants:
        return constants[expr.buffer.data]
    is_integer = "int" in str(expr.dtype)
    # A parameter: what a stage computes is not there yet where the window reads its data.
    return expr if is_integer and not len(expr.indices) else None
