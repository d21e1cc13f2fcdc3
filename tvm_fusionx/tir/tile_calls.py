"""Registers of whole tiles (Intel's AMX) as statements of TIR.

A thread says first which shapes its tiles have, and at the end that it needs them no more. Linux
lends a process the registers when it asks for them: a kernel asks before its first tile, and ends
with an error where the answer is no, which is also that of a processor without tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tvm import tir

from tvm_fusionx.processors.integers import ByteTiles
from tvm_fusionx.processors.tile_permission import (
    ARCH_PRCTL,
    REFUSED,
    REQUEST_PERMISSION,
    TILE_DATA,
)
from tvm_fusionx.tir.llvm_functions import with_llvm_functions

FUNCTION = "fusionx_may_use_tiles"

# The answer holds for the process; a library keeps it: 1 for yes, 2 for no.
_FUNCTIONS = f"""
@fusionx_tiles_answer = internal global i32 0
define i32 @{FUNCTION}() {{
  %known = load atomic i32, ptr @fusionx_tiles_answer monotonic, align 4
  %is_known = icmp ne i32 %known, 0
  br i1 %is_known, label %answered, label %ask
answered:
  %was_yes = icmp eq i32 %known, 1
  %was = zext i1 %was_yes to i32
  ret i32 %was
ask:
  %error = call i64 asm sideeffect "syscall",
    "={{rax}},{{rax}},{{rdi}},{{rsi}},~{{rcx}},~{{r11}},~{{memory}}"
    (i64 {ARCH_PRCTL}, i64 {REQUEST_PERMISSION}, i64 {TILE_DATA})
  %is_yes = icmp eq i64 %error, 0
  %answer = select i1 %is_yes, i32 1, i32 2
  store atomic i32 %answer, ptr @fusionx_tiles_answer monotonic, align 4
  %now = zext i1 %is_yes to i32
  ret i32 %now
}}
"""

# Of the 64 bytes that say what shapes tiles have: the number of the form, and where the bytes of
# the rows (16 bits each) and the numbers of rows begin (Intel SDM, volume 1, table 18-3).
CONFIGURATION_BYTES = 64
FORM, ROW_BYTES_AT, ROWS_AT = 1, 16, 48


def asking_first(kernel: Any) -> Any:
    """Return a statement behind the question whether the process may use tiles."""
    question = tir.EQ(tir.call_extern("int32", FUNCTION), 1)
    asked = tir.AssertStmt(question, tir.StringImm(REFUSED), kernel)
    return with_llvm_functions(asked, _FUNCTIONS)


class TileRegisters:
    """Writes statements on tiles with an IR builder.

    Parameters
    ----------
    ib
        Builder of the kernel.
    tiles
        What the processor has.
    """

    def __init__(self, ib: Any, tiles: ByteTiles) -> None:
        self.ib, self.tiles = ib, tiles

    def configure(self, shapes: Mapping[int, tuple[int, int]]) -> None:
        """Give tiles their shapes, in this thread: rows, and bytes of a row, by their numbers."""
        said = [0] * CONFIGURATION_BYTES
        said[0] = FORM
        for tile, (rows, row_bytes) in shapes.items():
            said[ROW_BYTES_AT + 2 * tile] = row_bytes
            said[ROWS_AT + tile] = rows
        place = self.ib.allocate("uint8", (CONFIGURATION_BYTES,), "shapes", scope="global")._buffer
        for at, byte in enumerate(said):
            self.ib.emit(tir.BufferStore(place, tir.const(byte, "uint8"), [at]))
        self._emit("llvm.x86.ldtilecfg", _address(place, [0]))

    def release(self) -> None:
        """End the use of tiles in this thread."""
        self._emit("llvm.x86.tilerelease")

    def clear(self, tile: int) -> None:
        """Fill a tile with zeros."""
        self._emit("llvm.x86.tilezero", _number(tile))

    def load(self, tile: int, buffer: Any, place: list[Any], stride: Any) -> None:
        """Load rows `stride` bytes apart, the first from an element of a buffer."""
        apart = tir.Cast("int64", stride) if isinstance(stride, tir.PrimExpr) else stride
        self._emit(
            "llvm.x86.tileloadd64",
            _number(tile),
            _address(buffer, place),
            tir.const(apart, "int64") if isinstance(apart, int) else apart,
        )

    def store(self, tile: int, buffer: Any, place: list[Any], stride: int) -> None:
        """Store rows `stride` bytes apart."""
        apart = tir.const(stride, "int64")
        self._emit("llvm.x86.tilestored64", _number(tile), _address(buffer, place), apart)

    def multiply(self, product: str, sums: int, data: int, weights: int) -> None:
        """Add the products of two tiles to one of sums, by the instruction of that name."""
        self._emit(product, _number(sums), _number(data), _number(weights))

    def _emit(self, name: str, *operands: Any) -> None:
        count = tir.const(len(operands), "uint32")
        self.ib.emit(tir.Evaluate(tir.call_llvm_intrin("int32", name, count, *operands)))


def _number(tile: int) -> Any:
    return tir.const(tile, "uint8")


def _address(buffer: Any, place: list[Any]) -> Any:
    return tir.call_intrin("handle", "tir.address_of", tir.BufferLoad(buffer, place))
