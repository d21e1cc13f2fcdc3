"""Look-ups of bytes in a table of 256 become shuffles, once loops are vectors.

A table of 256 bytes is four registers of 64. An instruction looks elements up in two of them; one
more bit chooses between two such results. Its elements are bytes, or words of four, of which a
shift takes the one that the last two bits say. Elsewhere a vector's bytes are looked up one by one.

Where vectors have eight floats, their bytes are looked up in eight registers of 32. LLVM makes one
look-up in 64 bytes of each two that lie side by side, `vpermb`, which is one operation where the
instruction on two registers is three: a window of 5 by 5 took 27 us with those, and 21 so.
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

# Bytes in half of one; so many are what vectors of eight floats make, one of them or four.
HALF_WIDTH = WIDTH // 2
OF_SHORT_VECTORS = (8, HALF_WIDTH)

# A word has 2 ** 2 bytes, a byte 2 ** 3 bits.
WORD_BITS, BYTE_SHIFT = 2, 3


def shuffle_bytes(tables: ByteTables | None) -> Any:
    """Return the TIR pass that turns look-ups of whole vectors into shuffles, after lowering."""

    def look_up(load: Any) -> Any:
        places = byte_looked_up(load)
        lanes = 1 if places is None else tvm.DataType(places.dtype).lanes
        if tables is None or lanes == 1 or WIDTH // tables.element_bytes % lanes:
            return None
        return _shuffled(load.buffer, places, tables)

    @tir.transform.prim_func_pass(opt_level=0, name="tvm_fusionx.ShuffleBytes")
    def run(func: Any, mod: Any, ctx: Any) -> Any:
        if tables is None or tables.instruction is None:
            return func
        body = tir.stmt_functor.ir_transform(func.body, None, look_up, ["tir.BufferLoad"])
        return func.with_body(body)

    return run


def _shuffled(table: Any, places: Any, tables: ByteTables) -> Any:
    """Return the entries of `table` at `places`, a vector of bytes."""
    lanes = tvm.DataType(places.dtype).lanes
    by_halves = tables.of_halves is not None and lanes in OF_SHORT_VECTORS
    register = HALF_WIDTH if by_halves else WIDTH
    width = register // tables.element_bytes
    index = places
    if width > lanes:
        index = tir.Shuffle([places] * (width // lanes), list(range(width)))
    registers = [
        tir.BufferLoad(table, [tir.Ramp(start, 1, register)])
        for start in range(0, ENTRIES, register)
    ]
    if by_halves:
        chosen = _byte_of_quarters(registers, index, tables.of_halves)
    else:
        chosen = (_byte if tables.element_bytes == 1 else _byte_of_word)(registers, index, tables)
    return chosen if width == lanes else tir.Shuffle([chosen], list(range(lanes)))


def _byte(registers: list[Any], index: Any, tables: ByteTables) -> Any:
    kind = f"int8x{WIDTH}"
    signed = tir.call_intrin(kind, "tir.reinterpret", index)
    is_upper = signed < tir.Broadcast(tir.const(0, "int8"), WIDTH)
    return _half(registers, index, registers[0].dtype, tables, is_upper)


def _byte_of_quarters(registers: list[Any], index: Any, instruction: str | None) -> Any:
    """Return what `index` finds in eight registers, of which its upper two bits choose a pair."""
    count = tir.const(3, "uint32")
    quarters = [
        tir.call_llvm_pure_intrin(lower.dtype, instruction, count, lower, index, upper)
        for lower, upper in zip(registers[::2], registers[1::2], strict=True)
    ]
    signed = tir.call_intrin(f"int8x{HALF_WIDTH}", "tir.reinterpret", index)
    zero = tir.Broadcast(tir.const(0, "int8"), HALF_WIDTH)
    is_odd = signed + signed < zero
    lower, upper = (tir.Select(is_odd, *reversed(quarters[at : at + 2])) for at in (0, 2))
    return tir.Select(signed < zero, upper, lower)


def _byte_of_word(registers: list[Any], index: Any, tables: ByteTables) -> Any:
    lanes = WIDTH // tables.element_bytes
    kind = f"int32x{lanes}"

    def each(number: int) -> Any:
        return tir.Broadcast(tir.const(number, "int32"), lanes)

    wide = index.astype(kind)
    words = [tir.call_intrin(kind, "tir.reinterpret", register) for register in registers]
    is_upper = wide >= each(ENTRIES // HALVES)
    word = _half(words, wide >> each(WORD_BITS), kind, tables, is_upper)
    within = (wide & each(tables.element_bytes - 1)) << each(BYTE_SHIFT)
    return (word >> within).astype(f"{registers[0].buffer.dtype}x{lanes}")


def _half(registers: list[Any], index: Any, kind: str, tables: ByteTables, is_upper: Any) -> Any:
    """Return what `index` finds in the lower or the upper two registers."""
    lower, upper = (
        tir.call_llvm_pure_intrin(
            kind, tables.instruction, tir.const(3, "uint32"), first, index, second
        )
        for first, second in (registers[:HALVES], registers[HALVES:])
    )
    return tir.Select(is_upper, upper, lower)
