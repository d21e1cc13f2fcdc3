"""The inner loops of products and convolutions keep their sums in registers on every CPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.depthwise_pairs import pair
from tests.relay_modules import const, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import dense, unscheduled
from tests.schedules.matrix_blocks import packed_dense
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target, schedule

HASWELL = "llvm -mcpu=haswell"
SKYLAKE = "llvm -mcpu=skylake-avx512"
NEON = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon"


@dataclass(frozen=True)
class Assembly:
    """How one processor's assembly says what is looked for.

    Attributes
    ----------
    multiply_add
        A vector multiply-add.
    label
        The target of a jump; its name is the first group.
    jump
        A conditional jump; its label is the first group.
    store
        Anything written to memory.
    stack
        An operand on the stack, where a register that is spilled goes.
    sign
        An index that is widened to an address: neighbours of a known place need none.
    registers
        Vector registers of the processor.
    """

    multiply_add: re.Pattern[str]
    label: re.Pattern[str]
    jump: re.Pattern[str]
    store: re.Pattern[str]
    stack: re.Pattern[str]
    sign: re.Pattern[str]
    registers: int


def _x86(vector: str, registers: int) -> Assembly:
    return Assembly(
        multiply_add=re.compile(rf"^\s+vfn?madd\S+ps\s.*%{vector}"),
        label=re.compile(r"^(\.LBB\w+):"),
        jump=re.compile(r"^\s+j(?!mp)\w+\s+(\.LBB\w+)"),
        store=re.compile(r"^\s+v?mov\S*\s+[$%][^,()]+, [^,]*\("),
        # `lea` computes: a register that points to no frame may be its operand.
        stack=re.compile(r"^\s*(?!\s|lea).*\(%r[sb]p"),
        sign=re.compile(r"^\s+(?:movslq|cltq)\b"),
        registers=registers,
    )


ASSEMBLY = {
    HASWELL: _x86("ymm", 16),
    SKYLAKE: _x86("zmm", 32),
    NEON: Assembly(
        multiply_add=re.compile(r"^\s+fmla\s+v"),
        label=re.compile(r"^(\.LBB\w+):"),
        jump=re.compile(r"^\s+(?:b\.\w+|cbn?z\s+\w+,|tbn?z\s+\w+, #\d+,)\s+(\.LBB\w+)"),
        store=re.compile(r"^\s+st\w+\s"),
        stack=re.compile(r"\[sp\b"),
        sign=re.compile(r"^\s+(?:sxtw|sbfiz)\b|\bsxtw\b"),
        registers=32,
    ),
}

# At least this part of the registers holds sums; the others are for operands.
LEAST_SUMS = 3 / 8

SUMS_OF_A_PAIR = 12


def _pointwise(channels: int, size: int, outputs: int) -> relay.Expr:
    image = relay.nn.conv2d(var("x", 1, channels, size, size), const(outputs, channels, 1, 1))
    return relay.nn.relu(relay.nn.bias_add(image, const(outputs)))


def _strided(size: int) -> relay.Expr:
    # With a stride it is computed directly: Winograd's filtering has none.
    image = relay.nn.conv2d(
        var("x", 1, 64, size, size), const(128, 64, 3, 3), strides=(2, 2), padding=(1, 1, 1, 1)
    )
    return relay.nn.relu(relay.nn.bias_add(image, const(128)))


def _along_rows(channels: int, columns: int) -> relay.Expr:
    planes = relay.nn.conv2d(
        var("x", 1, channels, 8, columns), const(channels, channels, 3, 1), padding=(1, 0, 1, 0)
    )
    return relay.nn.relu(relay.nn.bias_add(planes, const(channels)))


MODELS = {
    "dense": relay.nn.relu(
        relay.nn.bias_add(relay.nn.dense(var("x", 128, 384), const(1536, 384)), const(1536))
    ),
    "1x1 convolution": _pointwise(64, 28, 128),
    # On AVX2, a tile of 3 chunks by 4 columns and one of 5 by 2 fill all 16 registers.
    "1x1 convolution of 3 chunks": _pointwise(192, 7, 1152),
    "1x1 convolution of 5 chunks": _pointwise(480, 28, 80),
    # On AVX-512, five chunks of 8 channels in three vectors.
    "1x1 convolution of half vectors": _pointwise(144, 28, 40),
    "3x3 convolution, stride 2": _strided(56),
    # On AVX2, a tile of one chunk by all columns would spill.
    "3x3 convolution of 13 columns": _strided(26),
    "3x1 convolution": _along_rows(64, 784),
}


def _innermost_loops(text: str, assembly: Assembly) -> list[list[str]]:
    """Return the lines of every loop that contains no other."""
    begins: dict[str, int] = {}
    loops: list[tuple[int, int]] = []
    lines = text.splitlines()
    for place, line in enumerate(lines):
        label = assembly.label.match(line)
        if label is not None:
            begins[label[1]] = place
        jump = assembly.jump.match(line)
        if jump is not None and jump[1] in begins:
            begin = begins[jump[1]]
            if not any(begin <= inner for inner, _ in loops):
                loops.append((begin, place))
    return [lines[begin : end + 1] for begin, end in loops]


def _multiply_adds(loop: list[str], assembly: Assembly) -> int:
    return sum(assembly.multiply_add.match(line) is not None for line in loop)


@pytest.mark.parametrize("target", ASSEMBLY)
@pytest.mark.parametrize("name", few_fast(MODELS, 1))
def test_sums_stay_in_registers(name: str, target: str) -> None:
    assembly = ASSEMBLY[target]
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(MODELS[name]))
    text = fx.build(mod, target).get_lib().get_source("asm")
    loops = _innermost_loops(text, assembly)
    loop = max(loops, key=lambda lines: _multiply_adds(lines, assembly))
    assert _multiply_adds(loop, assembly) >= LEAST_SUMS * assembly.registers
    assert not [line for line in loop if assembly.stack.search(line)]
    assert not [line for line in loop if assembly.store.match(line)]


# Chunks of four channels, and panels of a tile, as they are packed for NEON. Some have rows or
# columns that no tile divides.
CORES = [NEON, "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76"]
FOURS = (4, 4)
PRODUCTS_ON_NEON = {
    "3x3 convolution, stride 2": dense(
        32, (28, 28), 64, (3, 3), strides=(2, 2), padding=(1, 1, 1, 1), blocks=FOURS
    ),
    "1x1 convolution": dense(144, (28, 28), 32, (1, 1), blocks=FOURS),
    "1x1 convolution of 49 pixels": dense(96, (7, 7), 160, (1, 1), blocks=FOURS),
    "dense of panels of two vectors": packed_dense(128, 96, 384, width=8),
    "dense of 13 rows": packed_dense(13, 96, 384, width=12),
}
MOST_INSTRUCTIONS_A_MULTIPLY_ADD = 1.3
BY_LANE = re.compile(r"^\s+fmla\s+v.*\.s\[\d\]")
INSTRUCTION = re.compile(r"^\s+[a-z]")


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("name", few_fast(PRODUCTS_ON_NEON, 1))
def test_products_on_neon_take_shared_elements_from_lanes(name: str, core: str) -> None:
    target, assembly = resolve_target(f"{core} -num-cores=2"), ASSEMBLY[NEON]
    made = schedule(unscheduled(PRODUCTS_ON_NEON[name], target), target)
    text = compile_kernel(made.func, target, "kernel").get_source("asm")
    loops = _innermost_loops(text, assembly)
    loop = max(loops, key=lambda lines: _multiply_adds(lines, assembly))
    products = _multiply_adds(loop, assembly)
    assert sum(BY_LANE.match(line) is not None for line in loop) == products
    assert not [line for line in loop if assembly.stack.search(line)]
    instructions = sum(INSTRUCTION.match(line) is not None for line in loop)
    assert instructions <= MOST_INSTRUCTIONS_A_MULTIPLY_ADD * products


@pytest.mark.parametrize("target", ASSEMBLY)
def test_pixels_of_a_shared_row_need_no_addresses_of_their_own(target: str) -> None:
    # Four tasks share 361 pixels: three of them begin amid a row.
    block = 16 if target == SKYLAKE else 8
    made = schedule(
        unscheduled(pair(256, (19, 19), 256, block=block, out_block=block)),
        resolve_target(target),
        {"task_rows": 5, "tile_chunks": 2, "tile_pixels": SUMS_OF_A_PAIR // 2},
    )
    assert (made.template, made.knobs["task_rows"]) == ("depthwise_pointwise", 5)
    text = compile_kernel(made.func, resolve_target(target), "kernel").get_source("asm")
    assembly = ASSEMBLY[target]
    # The others are the depthwise convolution's: of whole rows of taps, or with more of others.
    loops = [
        loop
        for loop in _innermost_loops(text, assembly)
        if (number := _multiply_adds(loop, assembly)) and number % SUMS_OF_A_PAIR == 0
        if 5 * number > 2 * len(loop)
    ]
    # One, or a copy for each piece of the sum.
    assert loops
    assert not [line for loop in loops for line in loop if assembly.sign.search(line)]


# Instructions that put a vector together from elements, or take it apart.
ELEMENTS = re.compile(r"^\s+v(?:insertps|extractps|pinsr|pextr|shufps|unpck)")


def test_sums_of_twelve_channels_are_not_carried_element_by_element() -> None:
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(_pointwise(48, 80, 12)))
    text = fx.build(mod, HASWELL).get_lib().get_source("asm")
    assembly = ASSEMBLY[HASWELL]
    loop = max(_innermost_loops(text, assembly), key=lambda lines: _multiply_adds(lines, assembly))
    assert _multiply_adds(loop, assembly) > 0
    assert not [line for line in loop if ELEMENTS.match(line)]
    assert not [line for line in loop if assembly.stack.search(line)]


def test_a_spilled_sum_is_seen() -> None:
    """The patterns themselves: a loop with one sum on the stack, in both assemblies."""
    loops = {
        HASWELL: (
            ".LBB0_1:\n\tvfmadd231ps\t(%rax), %ymm1, %ymm0\n\tvmovups\t%ymm0, 32(%rsp)\n"
            "\taddq\t$8, %rax\n\tcmpq\t$64, %rax\n\tjne\t.LBB0_1\n"
        ),
        NEON: (
            ".LBB0_1:\n\tfmla\tv0.4s, v1.4s, v2.s[0]\n\tstr\tq0, [sp, #16]\n"
            "\tsubs\tx8, x8, #1\n\tb.ne\t.LBB0_1\n"
        ),
    }
    for target, text in loops.items():
        assembly = ASSEMBLY[target]
        (loop,) = _innermost_loops(text, assembly)
        assert _multiply_adds(loop, assembly) == 1
        assert [line for line in loop if assembly.stack.search(line)]
        assert [line for line in loop if assembly.store.match(line)]
