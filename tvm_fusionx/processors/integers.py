"""Instructions that multiply short integers and add the products, by processor features."""

from __future__ import annotations

from dataclasses import dataclass

SUM = "int32"

# A set of instructions, among the features: 32-bit Arm has features of the same names, and LLVM
# ends the process where it meets an instruction that the processor has not.
AARCH64 = "aarch64"

# Integers of 8 bits whose products go to one sum of 32.
WORD_BYTES = 4


@dataclass(frozen=True)
class DotInstruction:
    """A vector instruction that adds dot products of `depth` numbers to 32-bit sums."""

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

    pairs: tuple[tuple[int, str], ...] = ()
    """LLVM's name, for each number of sums, of the instruction that multiplies pairs of 16-bit
    integers and adds the two products; none where a plain product of short integers is as fast."""

    repeats_last: bool = False
    """Whether the operand that is repeated for all sums stands last: one of its lanes serves."""

    neighbours: str | None = None
    """LLVM's name of what adds neighbours of 16 bits into sums, where the instruction only
    multiplies, `depth` neighbouring products a sum; None where it adds them itself."""

    together: int = 1
    """Products that are added in 16 bits before their neighbours are; all fit but twice -128 by
    -128."""

    sums: str = SUM
    """Element type of the sums."""

    @property
    def adds_in_words(self) -> bool:
        """Whether products are added in 16 bits, so that weights must leave them room."""
        return self.together > 1

    def name_for(self, lanes: int) -> str | None:
        """Return LLVM's name of the instruction for vectors of `lanes` sums, or None."""
        return dict(self.by_lanes).get(lanes)

    def pair_name_for(self, lanes: int) -> str | None:
        """Return LLVM's name of the instruction for `lanes` sums of pairs, or None."""
        return dict(self.pairs).get(lanes)


@dataclass(frozen=True)
class ByteTables:
    """How a processor looks bytes up in a table of 256, where that is cheap."""

    instruction: str | None
    """LLVM's name of what looks elements up in two registers of 64 bytes; None where bytes are
    loaded one by one, which costs less than arithmetic where vectors are short."""

    element_bytes: int = 1
    """Bytes of the elements that it looks up: a byte is one of so many."""

    of_halves: str | None = None
    """LLVM's name of what looks bytes up in two registers of 32; None where there is none."""


_VPERMI2B = "llvm.x86.avx512.vpermi2var.qi."

# By the features that they need, the first counts. Vectors of Arm have four floats: four loads by
# an index take less than a sigmoid with its quantizations. Eight do not, on x86 with AVX2.
BYTE_TABLES: tuple[tuple[frozenset[str], ByteTables], ...] = (
    (
        frozenset({"avx512vbmi", "avx512vl"}),
        ByteTables(f"{_VPERMI2B}512", of_halves=f"{_VPERMI2B}256"),
    ),
    (frozenset({"avx512vbmi"}), ByteTables(f"{_VPERMI2B}512")),
    (frozenset({"avx512f"}), ByteTables("llvm.x86.avx512.vpermi2var.d.512", 4)),
    (frozenset({"neon"}), ByteTables(None)),
)


@dataclass(frozen=True)
class RoundingToBytes:
    """LLVM's names of the instructions that round floats to bytes, each of which saturates."""

    lanes: int
    """Floats of a vector."""

    nearest: str
    """To the nearest 32-bit integers, of two the even one."""

    to_words: str
    """32-bit integers to 16-bit ones."""

    add_words: str
    """The sums of 16-bit integers, twice as many."""

    to_bytes: tuple[tuple[str, str], ...]
    """16-bit integers, twice as many, to bytes of each type."""


# By the features that they need. Arm ARM, section C7.2: FCVTNS (vector), SQXTN, SQADD, SQXTUN.
# x86's `vcvtps2dq` makes the smallest integer of what is too large.
ROUNDINGS: tuple[tuple[frozenset[str], RoundingToBytes], ...] = (
    (
        frozenset({AARCH64, "neon"}),
        RoundingToBytes(
            4,
            "llvm.aarch64.neon.fcvtns.v4i32.v4f32",
            "llvm.aarch64.neon.sqxtn.v4i16",
            "llvm.aarch64.neon.sqadd.v8i16",
            (
                ("int8", "llvm.aarch64.neon.sqxtn.v8i8"),
                ("uint8", "llvm.aarch64.neon.sqxtun.v8i8"),
            ),
        ),
    ),
)


def rounding_of(features: set[str]) -> RoundingToBytes | None:
    """Return how a processor of these features rounds to bytes, or None where nothing saturates."""
    return next((rounding for needed, rounding in ROUNDINGS if needed <= features), None)


def byte_tables_of(features: set[str]) -> ByteTables | None:
    """Return how a processor of these features looks bytes up, or None where that does not pay."""
    return next((tables for needed, tables in BYTE_TABLES if needed <= features), None)


_VPDPBUSD = "llvm.x86.avx512.vpdpbusd."


_VPDPBUSD_SHORT = ((8, f"{_VPDPBUSD}256"), (4, f"{_VPDPBUSD}128"))


_PMADDWD_SHORT = ((8, "llvm.x86.avx2.pmadd.wd"), (4, "llvm.x86.sse2.pmadd.wd"))
_PMADDWD = ((16, "llvm.x86.avx512.pmaddw.d.512"), *_PMADDWD_SHORT)


# Bytes times bytes where an instruction multiplies unsigned by signed ones (VNNI) or signed ones
# (Arm). Others multiply 16-bit integers, whose sums of two are exact: the 8-bit `vpmaddubsw`
# saturates at 16 bits, where two products of 255 and 127 do not fit. The first that a processor has
# is used.
INSTRUCTIONS: tuple[tuple[frozenset[str], DotInstruction], ...] = (
    (
        frozenset({"avx512vnni", "avx512vl"}),
        DotInstruction(
            *("uint8", "int8", 4, ((16, f"{_VPDPBUSD}512"), *_VPDPBUSD_SHORT), True),
            pairs=_PMADDWD,
        ),
    ),
    (
        frozenset({"avxvnni"}),
        DotInstruction("uint8", "int8", 4, _VPDPBUSD_SHORT, True, pairs=_PMADDWD_SHORT),
    ),
    (
        frozenset({AARCH64, "i8mm"}),
        DotInstruction("int8", "int8", 8, ((4, "llvm.aarch64.neon.smmla.v4i32.v16i8"),), True, 2),
    ),
    (
        frozenset({AARCH64, "dotprod"}),
        # Arm ARM, section C7.2: SDOT (by element).
        DotInstruction(
            *("int8", "int8", 4, ((4, "llvm.aarch64.neon.sdot.v4i32.v16i8"),), True),
            repeats_last=True,
        ),
    ),
    (
        frozenset({AARCH64, "neon"}),
        # Arm ARM, section C7.2: SMULL, SMLAL, SMULL2 and SMLAL2 (vector), SADALP.
        DotInstruction(
            *("int8", "int8", 2, ((4, "llvm.aarch64.neon.smull.v8i16"),), False),
            neighbours="llvm.aarch64.neon.saddlp.v4i32.v8i16",
            together=2,
        ),
    ),
    (
        frozenset({"avx512bw"}),
        DotInstruction("int16", "int16", 2, _PMADDWD, False, pairs=_PMADDWD),
    ),
    (
        frozenset({"avx2"}),
        DotInstruction("int16", "int16", 2, _PMADDWD_SHORT, False, pairs=_PMADDWD_SHORT),
    ),
)


_VPDPWSSD = "llvm.x86.avx512.vpdpwssd."
_VPDPWSSD_SHORT = ((8, f"{_VPDPWSSD}256"), (4, f"{_VPDPWSSD}128"))

# Two products of 16-bit integers, beside the instruction for bytes; the others have no other one.
WORD_INSTRUCTIONS: tuple[tuple[frozenset[str], DotInstruction], ...] = (
    (
        frozenset({"avx512vnni", "avx512vl"}),
        DotInstruction(
            *("int16", "int16", 2, ((16, f"{_VPDPWSSD}512"), *_VPDPWSSD_SHORT), True),
            pairs=_PMADDWD,
        ),
    ),
    (
        frozenset({"avxvnni"}),
        DotInstruction("int16", "int16", 2, _VPDPWSSD_SHORT, True, pairs=_PMADDWD_SHORT),
    ),
    *((needed, each) for needed, each in INSTRUCTIONS if each.data == "int16"),
)


@dataclass(frozen=True)
class ByteTiles:
    """Registers that hold tiles of bytes or of 32-bit sums, and what multiplies two of bytes."""

    rows: int
    """Rows of a tile, at most."""

    row_bytes: int
    """Bytes of a row, at most: as many terms of data, or four terms of some columns."""

    by_types: tuple[tuple[tuple[str, str], str], ...]
    """LLVM's name of the product for the element types of data and weights."""

    lines_a_cycle: int
    """Rows that are loaded in a cycle."""

    store_cycles: int
    """Cycles of storing a tile."""

    latency: int
    """Cycles from a product to the next that adds to the same sums."""

    configure_cycles: int
    """Cycles of saying what shapes the tiles have."""

    system: str
    """Part of LLVM's triples of the systems that are asked for the registers as we do."""

    @property
    def columns(self) -> int:
        """Columns of a tile of weights, of which each row has four terms; and of one of sums."""
        return self.row_bytes // WORD_BYTES

    def name_for(self, data: str, weights: str) -> str | None:
        """Return LLVM's name of the product of two tiles of these types, or None."""
        return dict(self.by_types).get((data, weights))


# Cycles: Intel 64 and IA-32 Architectures Optimization Reference Manual, the chapter on AMX: a
# product takes a row of data a cycle, and 52 until its sums are there, a load 8 cycles for 16 rows,
# a store 16.
TILES: tuple[tuple[frozenset[str], ByteTiles], ...] = (
    (
        frozenset({"amx-tile", "amx-int8"}),
        ByteTiles(
            rows=16,
            row_bytes=64,
            by_types=(
                (("uint8", "int8"), "llvm.x86.tdpbusd"),
                (("int8", "int8"), "llvm.x86.tdpbssd"),
            ),
            lines_a_cycle=2,
            store_cycles=16,
            latency=52,
            configure_cycles=204,
            system="linux",
        ),
    ),
)


def byte_tiles_of(features: set[str], triple: str) -> ByteTiles | None:
    """Return the first tiles whose features a processor has, under a system that lends them."""
    return next(
        (each for needed, each in TILES if needed <= features and each.system in triple), None
    )


def word_dot_of(features: set[str]) -> DotInstruction | None:
    """Return the first instruction for 16-bit integers whose features a processor has."""
    return next((each for needed, each in WORD_INSTRUCTIONS if needed <= features), None)


def instruction_of(features: set[str]) -> DotInstruction | None:
    """Return the first instruction whose features a processor has, by LLVM's names of them."""
    for needed, instruction in INSTRUCTIONS:
        if needed <= features:
            return instruction
    return None


def byte_dot_of(features: set[str]) -> DotInstruction | None:
    """Return the first instruction that adds four products of bytes to each sum, of one row."""
    for needed, instruction in INSTRUCTIONS:
        is_of_words = instruction.depth == WORD_BYTES and instruction.rows == 1
        if needed <= features and is_of_words and instruction.takes_sum:
            return instruction
    return None
