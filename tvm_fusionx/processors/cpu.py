"""What a CPU target offers to a schedule: vector lanes, registers, caches, cores.

The facts come from the target string, through LLVM's own feature table and a table of rates by
LLVM's names of cores, so that a cross-compiled target (aarch64 on an x86 host) is described by what
it is and not by the machine that compiles.
"""

from __future__ import annotations

import functools
import os
from dataclasses import dataclass

import tvm
from tvm.target import codegen

from tvm_fusionx.processors.brains import brain_dot_of
from tvm_fusionx.processors.byte_packing import BytePacking, packings_of
from tvm_fusionx.processors.integers import (
    AARCH64,
    ByteTables,
    ByteTiles,
    DotInstruction,
    RoundingToBytes,
    byte_dot_of,
    byte_tables_of,
    byte_tiles_of,
    instruction_of,
    rounding_of,
    word_dot_of,
)
from tvm_fusionx.processors.rates import DEFAULT_RATES, rates_of, scalable_vectors, vector_sets
from tvm_fusionx.processors.targets import is_cpu

FLOAT32_BITS = 32

KIBI = 1024

# LLVM's name of Armv8.2's arithmetic of halves.
HALF_ARITHMETIC = "fullfp16"

# LLVM's name of products of halves that are added to float32 (FEAT_FHM); which cores have it, LLVM
# says (AArch64Processors.td): those since Armv8.4 that Arm licenses, as Cortex-A510 and A710,
# Neoverse V1 and N2, and no Cortex-A55, A76, A78, X1 or Neoverse N1.
HALF_PRODUCTS = "fp16fml"

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

    l1_bytes: int = DEFAULT_RATES.l1_kib * KIBI
    """Data cache of one core."""

    l2_bytes: int = DEFAULT_RATES.l2_kib * KIBI
    """Second-level cache of one core."""

    llc_slice_bytes: int = DEFAULT_RATES.llc_slice_kib * KIBI
    """Last-level cache that the cores of a slice share."""

    multiply_add_units: int = DEFAULT_RATES.multiply_add_units
    """Multiply-adds that begin in a cycle, of vectors no wider than a unit."""

    multiply_add_bits: int = DEFAULT_RATES.multiply_add_bits
    """Width of a unit."""

    multiply_add_latency: int = DEFAULT_RATES.multiply_add_latency
    """Cycles until the next multiply-add can add to the same sum."""

    addition_latency: int = DEFAULT_RATES.addition_latency
    """Cycles until the next addition can add to the same sum."""

    loads_a_cycle: float = DEFAULT_RATES.loads_a_cycle
    """Loads of a vector, or broadcasts of an element, that begin in a cycle."""

    l2_bytes_a_cycle: float = DEFAULT_RATES.l2_bytes_a_cycle
    """What a core streams from its second-level cache."""

    llc_bytes_a_cycle: float = DEFAULT_RATES.llc_bytes_a_cycle
    """What a core streams from the last-level cache."""

    memory_bytes_a_cycle: float = DEFAULT_RATES.memory_bytes_a_cycle
    """What a core streams from memory, while `memory_readers` cores do."""

    memory_readers: int = DEFAULT_RATES.memory_readers
    """Cores that read from memory at once as fast as one of them."""

    exchanges_slowly: bool = DEFAULT_RATES.exchanges_slowly
    """Whether what one core wrote reaches another no faster than memory does."""

    wake_up_us: float = DEFAULT_RATES.wake_up_us
    """Starting a parallel loop and joining its threads."""

    byte_pair_cost: float = DEFAULT_RATES.byte_pair_cost
    """Two products of bytes a sum that are added in 16 bits, in multiply-adds of floats."""

    scalable_bits: int = DEFAULT_RATES.scalable_bits
    """Width of a scalable vector, where there are any; templates use the others."""

    extremes_keep_nan: bool = False
    """Whether the larger and the smaller of a NaN and a number are NaN in one instruction."""

    multiplies_by_lane: bool = False
    """Whether a multiply-add takes one operand from a lane of a register."""

    begins_with_bias: bool = False
    """Whether sums begin with what is added to them: a copy is as cheap as a zero, and no
    instruction adds from memory."""

    strip_rows: int = 0
    """Most output rows of a tile of a window that keeps channels apart; 0 for a row at a time."""

    widens_upper_half: bool = False
    """Whether the upper half of a register of halves is widened like the lower."""

    compares_halves: bool = False
    """Whether there are maxima and minima of halves, which keep NaN where others do."""

    multiplies_halves: bool = False
    """Whether products of halves are added to sums of float32 (Arm's `fmlal`, FEAT_FHM)."""

    loads_several: bool = False
    """Whether one instruction loads three or four vectors, and moves the address behind them."""

    dot: DotInstruction | None = None
    """Multiplies short integers and adds the products; None where there is none."""

    byte_dot: DotInstruction | None = None
    """Adds four products of bytes to each sum: `dot`, or what stands behind it where that takes
    several rows; None where there is none."""

    word_dot: DotInstruction | None = None
    """Multiplies 16-bit integers and adds pairs of products; None where there is none."""

    brain_dot: DotInstruction | None = None
    """Multiplies matrices of bfloat16 and adds to sums of float32; None where there is none."""

    tiles: ByteTiles | None = None
    """Multiplies tiles of bytes; None where there are none."""

    byte_tables: ByteTables | None = None
    """Looks bytes up in a table of 256; None where arithmetic costs no more."""

    rounding: RoundingToBytes | None = None
    """Rounds floats to bytes; None where that takes bounds."""

    packings: tuple[BytePacking, ...] = ()
    """Round floats to bytes, several registers to one, for each width of a vector."""

    @property
    def adds_halves(self) -> bool:
        """Whether multiply-adds of halves take one operand from a lane, as those of float32 do."""
        return self.compares_halves and self.multiplies_by_lane

    @property
    def takes_words_by_lane(self) -> bool:
        """Whether a dot product of bytes takes those of one operand from a lane of a register.

        Or copies them from there, where products are added in 16 bits.
        """
        is_served = self.dot is not None and (self.dot is self.byte_dot or self.adds_in_words)
        return self.multiplies_by_lane and is_served

    @property
    def adds_in_words(self) -> bool:
        """Whether products of bytes are added in 16 bits before they join their sums."""
        return self.dot is not None and self.dot.adds_in_words

    def dot_for(self, data: str) -> DotInstruction | None:
        """Return what multiplies integers of an element type, or None."""
        found = (self.dot, self.word_dot)
        return next((each for each in found if each is not None and each.data == data), None)

    @property
    def l2_for_kernel_bytes(self) -> int:
        """What a kernel may fill of the second-level cache."""
        return self.l2_bytes // L2_SHARE

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of a native vector that begin in a cycle."""
        parts = max(1, self.lanes * FLOAT32_BITS // self.multiply_add_bits)
        return max(1, self.multiply_add_units // parts)

    @property
    def sums_to_hide_latency(self) -> int:
        """Independent sums that hide the latency of multiply-adds.

        Of vectors no wider than a unit: of wider ones, which keep it longer, fewer are enough.
        """
        return self.multiply_add_latency * self.multiply_add_units


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
        narrowest = vector_sets()[-1]
        return Cpu(narrowest.bits // FLOAT32_BITS, narrowest.registers, cores)
    features = {str(feature) for feature in codegen.llvm_get_cpu_features(target)}
    triple = str(target.attrs.get("mtriple", "")) or codegen.llvm_get_system_triple()
    if triple.startswith(("aarch64", "arm64")):
        features.add(AARCH64)
    vectors = next(each for each in vector_sets() if not each.feature or each.feature in features)
    rates = rates_of(str(target.attrs.get("mcpu", "")))
    scalable = scalable_vectors()
    has_scalable = scalable.feature in features
    return Cpu(
        lanes=vectors.bits // FLOAT32_BITS,
        registers=vectors.registers,
        cores=cores,
        l1_bytes=rates.l1_kib * KIBI,
        l2_bytes=rates.l2_kib * KIBI,
        llc_slice_bytes=rates.llc_slice_kib * KIBI,
        multiply_add_units=rates.multiply_add_units,
        multiply_add_bits=rates.multiply_add_bits,
        multiply_add_latency=rates.multiply_add_latency,
        addition_latency=rates.addition_latency,
        loads_a_cycle=rates.loads_a_cycle,
        l2_bytes_a_cycle=rates.l2_bytes_a_cycle,
        llc_bytes_a_cycle=rates.llc_bytes_a_cycle,
        memory_bytes_a_cycle=rates.memory_bytes_a_cycle,
        memory_readers=rates.memory_readers,
        exchanges_slowly=rates.exchanges_slowly,
        wake_up_us=rates.wake_up_us,
        byte_pair_cost=rates.byte_pair_cost,
        scalable_bits=max(rates.scalable_bits, scalable.bits) if has_scalable else 0,
        extremes_keep_nan=vectors.extremes_keep_nan,
        multiplies_by_lane=vectors.multiplies_by_lane,
        begins_with_bias=vectors.begins_with_bias,
        strip_rows=vectors.strip_rows,
        widens_upper_half=vectors.widens_upper_half,
        compares_halves=vectors.widens_upper_half and HALF_ARITHMETIC in features,
        multiplies_halves=AARCH64 in features and HALF_PRODUCTS in features,
        loads_several=vectors.multiplies_by_lane and AARCH64 in features,
        dot=instruction_of(features),
        byte_dot=byte_dot_of(features),
        word_dot=word_dot_of(features),
        brain_dot=brain_dot_of(features),
        tiles=byte_tiles_of(features, triple),
        byte_tables=byte_tables_of(features),
        rounding=rounding_of(features),
        packings=packings_of(features),
    )
