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
    """Stages that write ``x + offset`` of a buffer of bytes, in wider integers."""

    source: Any
    """The buffer of bytes."""

    offset: int
    """What is added to each element."""

    stages: tuple[str, ...]
    """Names of the stages, the one that reads `source` first."""

    def of(self, element: Any, dtype: str) -> Any:
        """Return what is made of `element`, a load from `source`, as `dtype`.

        Exact in any type that holds the sums: a byte and an offset fit the 16 bits of the stages.
        """
        wide = element.astype(dtype)
        return wide + tir.const(self.offset, dtype) if self.offset else wide


def find_widening(info: BlockInfo, buffer: Any, before: Collection[str]) -> Widening | str:
    """Return stages `before` as what widens bytes into `buffer`, or why they are something else."""
    writer = {each.data: name for name, stage in info.stages.items() for each in stage.writes}
    constants = _constants(info)
    names: list[str] = []
    offset = 0
    while buffer.data in writer:
        name = writer[buffer.data]
        found = _step(info.stages[name].block, constants)
        if found is None:
            return f"{name} does not widen integers element by element"
        names.append(name)
        buffer, added = found
        offset += added
    if str(buffer.dtype) not in BYTES:
        return f"it is made of {buffer.dtype}"
    if set(names) != {name for name in before if info.stages[name].reads}:
        return "something else is computed before it"
    return Widening(buffer, offset, tuple(reversed(names)))


def _constants(info: BlockInfo) -> dict[Any, int]:
    """Return the integers that are stages of their own, by the variables of their buffers."""
    written = {}
    for stage in info.stages.values():
        value = getattr(stage.block.body, "value", None)
        if not stage.reads and isinstance(value, tir.IntImm):
            written[stage.writes[0].data] = int(value)
    return written


def _step(block: Any, constants: dict[Any, int]) -> tuple[Any, int] | None:
    """Return the buffer of integers that a block reads in place, and what it adds; else None."""
    store = block.body
    if not isinstance(store, tir.BufferStore) or "int" not in str(store.value.dtype):
        return None
    value, offset = store.value, 0
    while not isinstance(value, tir.BufferLoad):
        if isinstance(value, tir.Cast):
            value = value.value
        elif isinstance(value, tir.Add | tir.Sub):
            added = _number(value.b, constants)
            if added is None:
                return None
            offset += added if isinstance(value, tir.Add) else -added
            value = value.a
        else:
            return None
        if "int" not in str(value.dtype):
            return None
    is_in_place = len(value.indices) == len(store.indices) and all(
        tvm.ir.structural_equal(here, there)
        for here, there in zip(value.indices, store.indices, strict=True)
    )
    return (value.buffer, offset) if is_in_place else None


def _number(expr: Any, constants: dict[Any, int]) -> int | None:
    if isinstance(expr, tir.IntImm):
        return int(expr)
    return constants.get(expr.buffer.data) if isinstance(expr, tir.BufferLoad) else None
