"""What a CPU target offers to a schedule: vector lanes, registers, caches, cores.

The facts come from the target string, through LLVM's own feature table and a table of caches by
LLVM's names of CPUs, so that a cross-compiled target (aarch64 on an x86 host) is described by what
it is and not by the machine that compiles.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

import tvm
from tvm.target import codegen

from tvm_fusionx.processors.host_cpu import (
    begins_one_multiply_add,
    cache_kibibytes,
    exchanges_slowly,
)
from tvm_fusionx.processors.integers import DotInstruction, instruction_of
from tvm_fusionx.processors.targets import is_cpu

FLOAT32_BITS = 32
VECTOR_BITS_AVX512 = 512
VECTOR_BITS_AVX = 256
VECTOR_BITS_BASE = 128

# Architectural vector registers (Intel SDM vol. 1 table 10-1 and 15.1; Arm ARM, section B1.2.1).
REGISTERS_AVX512 = 32
REGISTERS_X86 = 16
REGISTERS_AARCH64 = 32

KIBI = 1024

# Caches of CPUs that the table does not name: those of Zen 4, on which templates are measured.
L1_KIBI, L2_KIBI = 32, 1024

# Part of the second-level cache that templates fill; what streams past needs the rest. Tiles made
# for all of it were 2 to 5 % slower on Zen 4 (MiniLM, ResNet-50, Whisper's encoder).
L2_SHARE = 2


@dataclass(frozen=True)
class Cpu:
    """A CPU as a schedule sees it."""

    lanes: int
    """float32 lanes of one native vector."""

    registers: int
    """Architectural vector registers."""

    cores: int
    """Threads that run a parallel loop."""

    l1_bytes: int = L1_KIBI * KIBI
    """Data cache of one core."""

    l2_bytes: int = L2_KIBI * KIBI // L2_SHARE
    """What a kernel may fill of the second-level cache of one core."""

    multiply_adds: int = 2
    """Multiply-adds of a native vector that begin in a cycle."""

    exchanges_slowly: bool = False
    """Whether what one core wrote reaches another no faster than memory does."""

    dot: DotInstruction | None = None
    """Multiplies short integers and adds the products; None where there is none."""


def describe_cpu(target: tvm.target.Target) -> Cpu:
    """Return what `target` offers; cores: its ``-num-cores``, else those of this process."""
    return _describe_cpu(str(target), _cores(target))


def _cores(target: tvm.target.Target) -> int:
    declared = int(target.attrs.get("num-cores", 0))
    if declared > 0:
        return declared
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@functools.lru_cache(maxsize=64)
def _describe_cpu(target_text: str, cores: int) -> Cpu:
    target = tvm.target.Target(target_text)
    if not is_cpu(target):
        return Cpu(VECTOR_BITS_BASE // FLOAT32_BITS, REGISTERS_X86, cores)
    features = {str(feature) for feature in codegen.llvm_get_cpu_features(target)}
    if "avx512f" in features:
        bits, registers = VECTOR_BITS_AVX512, REGISTERS_AVX512
    elif "avx" in features:
        bits, registers = VECTOR_BITS_AVX, REGISTERS_X86
    elif "neon" in features:
        bits, registers = VECTOR_BITS_BASE, REGISTERS_AARCH64
    else:
        bits, registers = VECTOR_BITS_BASE, REGISTERS_X86
    name = str(target.attrs.get("mcpu", ""))
    l1, l2 = cache_kibibytes().get(name, (L1_KIBI, L2_KIBI))
    return Cpu(
        bits // FLOAT32_BITS,
        registers,
        cores,
        l1 * KIBI,
        l2 * KIBI // L2_SHARE,
        1 if bits == VECTOR_BITS_AVX512 and begins_one_multiply_add(name) else 2,
        exchanges_slowly(name),
        instruction_of(features),
    )
