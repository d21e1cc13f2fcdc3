"""Features of an AArch64 core: which the code of a target may use, and which a core tells of.

Linux tells a program of its core by bits in two words of the auxiliary vector, which ``getauxval``
reads. Bits: Linux, arch/arm64/include/uapi/asm/hwcap.h.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import tvm
from tvm.target import codegen

from tvm_fusionx.errors import TargetError

# Arguments of getauxval; Linux, include/uapi/linux/auxvec.h.
HWCAP, HWCAP2 = 16, 26

ARCHITECTURES = ("aarch64", "arm64")
SYSTEMS = ("linux", "android")


class FeatureBits(NamedTuple):
    """Where a core tells of a feature."""

    word: int
    """Argument of getauxval."""

    bits: tuple[int, ...]
    """All of these are set."""


# LLVM's names of what it may use in a kernel of ours. What only an intrinsic makes (ciphers,
# checksums, tags of memory) is in no kernel, and no core need have it.
FEATURES: dict[str, FeatureBits] = {
    "lse": FeatureBits(HWCAP, (8,)),
    "fullfp16": FeatureBits(HWCAP, (9, 10)),
    "rdm": FeatureBits(HWCAP, (12,)),
    "complxnum": FeatureBits(HWCAP, (14,)),
    "rcpc": FeatureBits(HWCAP, (15,)),
    # Exclusive ors of three vectors are one instruction.
    "sha3": FeatureBits(HWCAP, (17,)),
    "dotprod": FeatureBits(HWCAP, (20,)),
    "sve": FeatureBits(HWCAP, (22,)),
    "fp16fml": FeatureBits(HWCAP, (23,)),
    "flagm": FeatureBits(HWCAP, (27,)),
    "sve2": FeatureBits(HWCAP2, (1,)),
    "fptoint": FeatureBits(HWCAP2, (8,)),
    "i8mm": FeatureBits(HWCAP2, (13,)),
    "bf16": FeatureBits(HWCAP2, (14,)),
}


def is_linux_on_aarch64(triple: str) -> bool:
    """Tell whether LLVM's triple of a target is of AArch64 under Linux or Android."""
    architecture, _, rest = triple.partition("-")
    return architecture in ARCHITECTURES and any(system in rest for system in SYSTEMS)


def features_needed(target: tvm.target.Target) -> tuple[str, ...]:
    """Return the features that the code of a resolved target may use, in LLVM's names, sorted.

    Raises
    ------
    TargetError
        It is not for AArch64 under Linux or Android, whose cores tell of their features so.
    """
    if not is_linux_on_aarch64(str(target.attrs.get("mtriple", ""))):
        raise TargetError(
            "one of several targets",
            expected="AArch64 under Linux or Android, whose cores tell which version they can run",
            found=repr(str(target)),
            next_step="Give targets such as 'llvm -mtriple=aarch64-linux-gnu "
            "-mcpu=cortex-a76', or build a library for each.",
        )
    found = {str(feature) for feature in codegen.llvm_get_cpu_features(target)}
    return tuple(sorted(found & FEATURES.keys()))


def features_told(read: Callable[[int], int]) -> frozenset[str]:
    """Return the features that a core tells of.

    Parameters
    ----------
    read
        ``getauxval`` on that core.
    """
    words = {word: read(word) for word in (HWCAP, HWCAP2)}
    return frozenset(
        name
        for name, (word, bits) in FEATURES.items()
        if all(words[word] >> bit & 1 for bit in bits)
    )


def word_of(features: Iterable[str], word: int) -> int:
    """Return the word of the auxiliary vector, or of its like, of a core with just `features`."""
    bits = (FEATURES[name].bits for name in features if FEATURES[name].word == word)
    return sum({1 << bit for each in bits for bit in each})
