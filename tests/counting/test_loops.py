from __future__ import annotations

import math

import pytest

from tvm_fusionx.counting.disassembly import disassemble
from tvm_fusionx.counting.loops import branch_target, innermost_loops

FMLA, MOVE, RET, NOP = 0x4E22CC20, 0x4EA21C41, 0xD65F03C0, 0xD503201F
LOAD_STACK, LOAD_FRAME, STORE, FRAME = 0x3DC003E0, 0x3DC003A0, 0x3D800001, 0x910003FD


def back(words: int) -> int:
    """Return ``b.ne`` to so many words before it."""
    return 0x54000001 | (-words & 0x7FFFF) << 5


@pytest.mark.parametrize(
    ("word", "target"),
    [
        (0x14000002, 0x1008),  # b
        (0x17FFFFFF, 0x0FFC),  # b back
        (0x54FFFFC1, 0x0FF8),  # b.ne
        (0xB5FFFFE0, 0x0FFC),  # cbnz x0
        (0x36180040, 0x1008),  # tbz w0, #3
        (0x94000002, None),  # bl
        (RET, None),
        (FMLA, None),
    ],
)
def test_where_branches_lead(word: int, target: int | None) -> None:
    assert branch_target(word, 0x1000) == target


def test_a_loop_in_a_loop_is_the_innermost() -> None:
    code = disassemble([NOP, FMLA, LOAD_STACK, MOVE, FMLA, STORE, back(5), NOP, back(8), RET])
    (loop,) = innermost_loops(code)
    assert [line.address for line in loop.code] == list(range(4, 28, 4))
    assert (loop.multiply_adds, loop.loads, loop.stores, loop.moves) == (2, 1, 1, 1)
    assert loop.stack == 1
    assert loop.instructions_each == 3.0
    assert loop.depth == 1


def test_two_loops_one_after_the_other_are_both_found() -> None:
    code = disassemble([FMLA, back(1), NOP, NOP, back(1)])
    first, second = innermost_loops(code)
    assert first.multiply_adds == 1
    assert second.multiply_adds == 0
    assert first.depth == second.depth == 0
    assert math.isinf(second.instructions_each)


def test_the_frame_counts_as_stack_where_the_function_makes_one() -> None:
    (plain,) = innermost_loops(disassemble([LOAD_FRAME, back(1)]))
    (framed,) = innermost_loops(disassemble([FRAME, LOAD_FRAME, back(1)]))
    assert (plain.stack, framed.stack) == (0, 1)


def test_code_without_a_branch_back_has_no_loop() -> None:
    assert innermost_loops(disassemble([FMLA, 0x14000002, NOP, RET])) == []
