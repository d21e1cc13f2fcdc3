"""Instructions that round vectors of floats and narrow them to bytes, by processor features.

x86 narrows two registers to one, 128 bits of each at a time: words are made of sums, bytes of
words, and each step saturates. What lies side by side afterwards are parts of 128 bits, so a
permutation of words of four bytes puts the vectors behind one another.
"""

from __future__ import annotations

from dataclasses import dataclass

# Sums of 32 bits in the part of a register that is narrowed by itself.
PART = 4


@dataclass(frozen=True)
class BytePacking:
    """LLVM's names of the instructions that round vectors of `lanes` floats to bytes."""

    lanes: int
    """Floats of a vector, or 32-bit integers."""

    nearest: str
    """Floats to the nearest 32-bit integers, of two the even one; the smallest integer where the
    float is too large or no number."""

    is_masked: bool
    """Whether `nearest` takes what stays in lanes without a bit, the bits, and how to round."""

    to_words: str
    """32-bit integers of two vectors to 16-bit ones, part by part."""

    to_bytes: tuple[tuple[str, str], ...]
    """16-bit integers of two registers to bytes of each type, part by part."""


def _named(lanes: int, nearest: str, prefix: str, suffix: str, *, is_masked: bool) -> BytePacking:
    return BytePacking(
        lanes,
        f"llvm.x86.{nearest}",
        is_masked,
        f"llvm.x86.{prefix}.packssdw{suffix}",
        (
            ("int8", f"llvm.x86.{prefix}.packsswb{suffix}"),
            ("uint8", f"llvm.x86.{prefix}.packuswb{suffix}"),
        ),
    )


# By the features that they need. Intel 64 and IA-32 Architectures Software Developer's Manual,
# volume 2: CVTPS2DQ, PACKSSDW, PACKSSWB, PACKUSWB.
PACKINGS: tuple[tuple[frozenset[str], BytePacking], ...] = (
    (
        frozenset({"avx512bw"}),
        _named(16, "avx512.mask.cvtps2dq.512", "avx512", ".512", is_masked=True),
    ),
    (frozenset({"avx2"}), _named(8, "avx.cvt.ps2dq.256", "avx2", "", is_masked=False)),
    (frozenset({"avx2"}), _named(4, "sse2.cvtps2dq", "sse2", ".128", is_masked=False)),
)


def packings_of(features: set[str]) -> tuple[BytePacking, ...]:
    """Return how a processor of these features narrows to bytes, for each width of its vectors."""
    return tuple(packing for needed, packing in PACKINGS if needed <= features)
