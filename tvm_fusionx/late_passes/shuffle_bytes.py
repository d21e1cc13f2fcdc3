"""Look-ups of bytes in a table of 256 become shuffles, once loops are vectors.

A table of 256 bytes is four registers of 64. An instruction looks bytes up in two of them by seven
bits of each; the eighth bit chooses between two such results. Elsewhere a vector's bytes are looked
up one by one.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.integers import ByteTables
from tvm_fusionx.tir.look_up import ENTRIES, byte_looked_up

# Bytes in a register that is looked up, and registers that one instruction reads.
WIDTH = 64
HALVES = 2


def shuffle_bytes(tables: ByteTables | None) -> Any:
    """Return the TIR pass that turns look-ups of whole vectors into shuffles, after lowering."""
    name = None if tables is None else tables.instruction

    def look_up(load: Any) -> Any:
        found = _vector_of_bytes(load)
        return None if found is None else _shuffled(load.buffer, found, str(name))

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.ShuffleBytes")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        if name is None:
            return func
        body = tir.stmt_functor.ir_transform(func.body, None, look_up, ["tir.BufferLoad"])
        return func.with_body(body)

    return run


def _vector_of_bytes(load: Any) -> Any | None:
    """Return the bytes by which a vector is loaded from a table of 256 bytes; None of others."""
    places = byte_looked_up(load)
    lanes = 1 if places is None else tvm.DataType(places.dtype).lanes
    return places if lanes > 1 and WIDTH % lanes == 0 else None


def _shuffled(table: Any, places: Any, name: str) -> Any:
    """Return the entries of `table` at `places`, a vector of bytes."""
    lanes = tvm.DataType(places.dtype).lanes
    kind = f"{table.dtype}x{WIDTH}"
    copies = WIDTH // lanes
    index = places if copies == 1 else tir.Shuffle([places] * copies, list(range(WIDTH)))
    registers = [
        tir.BufferLoad(table, [tir.Ramp(start, 1, WIDTH)]) for start in range(0, ENTRIES, WIDTH)
    ]
    halves = [
        tir.call_llvm_pure_intrin(
            kind, name, tir.const(3, "uint32"), registers[first], index, registers[first + 1]
        )
        for first in range(0, len(registers), HALVES)
    ]
    signed = tir.call_intrin(f"int8x{WIDTH}", "tir.reinterpret", index)
    is_upper = signed < tir.Broadcast(tir.const(0, "int8"), WIDTH)
    chosen = tir.Select(is_upper, halves[1], halves[0])
    return chosen if copies == 1 else tir.Shuffle([chosen], list(range(lanes)))
