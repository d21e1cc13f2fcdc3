"""Instructions that multiply short integers and add the products, by processor features."""

from __future__ import annotations

from dataclasses import dataclass

SUM = "int32"


@dataclass(frozen=True)
class DotInstruction:
    """A vector instruction that adds dot products of `depth` integers to 32-bit sums."""

    data: str
    """Element type of the operand that is broadcast."""

    weights: str
    """Element type of the operand that is loaded as vectors."""

    depth: int
    """Products that are added to one sum; together they have its 32 bits."""

    by_lanes: tuple[tuple[int, str], ...]
    """LLVM's name of the instruction for each number of sums in a vector."""

    takes_sum: bool
    """Whether the instruction adds to a sum itself; else an addition follows it."""

    rows: int = 1
    """Rows of data that are multiplied at once, each by `lanes / rows` columns of weights."""

    def name_for(self, lanes: int) -> str | None:
        """Return LLVM's name of the instruction for vectors of `lanes` sums, or None."""
        return dict(self.by_lanes).get(lanes)


_VPDPBUSD = "llvm.x86.avx512.vpdpbusd."


_VPDPBUSD_SHORT = ((8, f"{_VPDPBUSD}256"), (4, f"{_VPDPBUSD}128"))


_PMADDWD_SHORT = ((8, "llvm.x86.avx2.pmadd.wd"), (4, "llvm.x86.sse2.pmadd.wd"))


# Bytes times bytes where an instruction multiplies unsigned by signed ones (VNNI) or signed ones
# (Arm). Others multiply 16-bit integers, whose sums of two are exact: the 8-bit `vpmaddubsw`
# saturates at 16 bits, where two products of 255 and 127 do not fit. The first that a processor has
# is used.
INSTRUCTIONS: tuple[tuple[frozenset[str], DotInstruction], ...] = (
    (
        frozenset({"avx512vnni", "avx512vl"}),
        DotInstruction("uint8", "int8", 4, ((16, f"{_VPDPBUSD}512"), *_VPDPBUSD_SHORT), True),
    ),
    (frozenset({"avxvnni"}), DotInstruction("uint8", "int8", 4, _VPDPBUSD_SHORT, True)),
    (
        frozenset({"i8mm"}),
        DotInstruction("int8", "int8", 8, ((4, "llvm.aarch64.neon.smmla.v4i32.v16i8"),), True, 2),
    ),
    (
        frozenset({"dotprod"}),
        DotInstruction("int8", "int8", 4, ((4, "llvm.aarch64.neon.sdot.v4i32.v16i8"),), True),
    ),
    (
        frozenset({"avx512bw"}),
        DotInstruction(
            "int16", "int16", 2, ((16, "llvm.x86.avx512.pmaddw.d.512"), *_PMADDWD_SHORT), False
        ),
    ),
    (frozenset({"avx2"}), DotInstruction("int16", "int16", 2, _PMADDWD_SHORT, False)),
)


def instruction_of(features: set[str]) -> DotInstruction | None:
    """Return the first instruction whose features a processor has, by LLVM's names of them."""
    for needed, instruction in INSTRUCTIONS:
        if needed <= features:
            return instruction
    return None
