"""Which instruction for short integers a processor has."""

from __future__ import annotations

import pytest

from tvm_fusionx.processors.integers import (
    INSTRUCTIONS,
    WORD_BYTES,
    byte_tiles_of,
    instruction_of,
)
from tvm_fusionx.schedules import describe_cpu, resolve_target

# The instruction that each processor multiplies bytes by, and the types that it takes.
PROCESSORS = {
    "llvm -mcpu=icelake-server": ("vpdpbusd", "uint8", 4),
    "llvm -mcpu=znver4": ("vpdpbusd", "uint8", 4),
    "llvm -mcpu=alderlake": ("vpdpbusd", "uint8", 4),
    "llvm -mcpu=skylake-avx512": ("vpmaddwd", "int16", 2),
    "llvm -mcpu=haswell": ("vpmaddwd", "int16", 2),
    "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod": ("sdot", "int8", 4),
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76": ("sdot", "int8", 4),
    "llvm -mtriple=aarch64-linux-gnu -mattr=+neon": ("smull", "int8", 2),
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a53": ("smull", "int8", 2),
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72": ("smull", "int8", 2),
    "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod,+i8mm": ("smmla", "int8", 8),
    "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-x2": ("smmla", "int8", 8),
}


@pytest.mark.parametrize("target", PROCESSORS)
def test_the_target_tells_the_instruction(target: str) -> None:
    cpu = describe_cpu(resolve_target(target))
    assert cpu.dot is not None
    assert (cpu.dot.data, cpu.dot.depth) == PROCESSORS[target][1:]
    assert cpu.dot.name_for(cpu.lanes) is not None


@pytest.mark.parametrize("target", PROCESSORS)
def test_pairs_of_words(target: str) -> None:
    cpu = describe_cpu(resolve_target(target))
    if "aarch64" in target:
        assert cpu.word_dot is None
        return
    assert cpu.dot is not None
    assert cpu.word_dot is not None
    assert (cpu.word_dot.data, cpu.word_dot.weights, cpu.word_dot.depth) == ("int16", "int16", 2)
    assert cpu.word_dot.name_for(cpu.lanes) is not None
    assert cpu.dot_for("int16") is (cpu.dot if cpu.dot.data == "int16" else cpu.word_dot)
    assert cpu.dot_for(cpu.dot.data) is cpu.dot
    assert cpu.dot_for("float32") is None


@pytest.mark.parametrize("target", PROCESSORS)
def test_words_of_bytes(target: str) -> None:
    """Where an instruction takes several rows at once, the one behind it takes one."""
    cpu = describe_cpu(resolve_target(target))
    if PROCESSORS[target][0] in ("vpmaddwd", "smull"):
        assert cpu.byte_dot is None
        return
    assert cpu.byte_dot is not None
    assert (cpu.byte_dot.depth, cpu.byte_dot.rows) == (WORD_BYTES, 1)
    assert cpu.byte_dot.name_for(cpu.lanes) is not None


@pytest.mark.parametrize(
    "target",
    [
        "llvm -mtriple=armv7a-linux-gnueabihf -mattr=+neon",
        "llvm -mtriple=armv8a-linux-gnueabihf -mattr=+neon,+dotprod,+i8mm",
    ],
)
def test_arm_of_32_bits_has_none_of_those_of_64(target: str) -> None:
    cpu = describe_cpu(resolve_target(target))
    assert (cpu.dot, cpu.byte_dot, cpu.rounding) == (None, None, None)


def test_processors_without_one() -> None:
    assert describe_cpu(resolve_target("llvm")).dot is None


@pytest.mark.parametrize("target", PROCESSORS)
def test_products_are_added_in_words_where_nothing_else_adds_them(target: str) -> None:
    cpu = describe_cpu(resolve_target(target))
    assert cpu.dot is not None
    is_so = PROCESSORS[target][0] == "smull"
    assert cpu.adds_in_words == cpu.dot.adds_in_words == is_so
    assert (cpu.dot.together, cpu.dot.neighbours is None) == ((2, False) if is_so else (1, True))
    if is_so:
        assert cpu.takes_words_by_lane


def test_the_first_instruction_that_a_processor_has_is_used() -> None:
    every = set().union(*(needed for needed, _ in INSTRUCTIONS))
    assert instruction_of(every) is INSTRUCTIONS[0][1]


@pytest.mark.parametrize(
    ("target", "has_tiles"),
    [
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids", True),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=graniterapids", True),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -mattr=-amx-int8", False),
        ("llvm -mtriple=x86_64-linux-gnu -mcpu=cascadelake", False),
        # Its registers are asked for in another way.
        ("llvm -mtriple=x86_64-pc-windows-msvc -mcpu=sapphirerapids", False),
        ("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-x2", False),
    ],
)
def test_tiles_of_bytes(target: str, has_tiles: bool) -> None:
    tiles = describe_cpu(resolve_target(target)).tiles
    assert (tiles is not None) == has_tiles
    if tiles is not None:
        assert tiles.columns == 16
        assert tiles.name_for("uint8", "int8") == "llvm.x86.tdpbusd"
        assert tiles.name_for("int16", "int16") is None


def test_tiles_need_their_registers_too() -> None:
    assert byte_tiles_of({"amx-int8"}, "x86_64-linux-gnu") is None
