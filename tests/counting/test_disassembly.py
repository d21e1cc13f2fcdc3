from __future__ import annotations

from tvm_fusionx.counting.disassembly import (
    UNKNOWN,
    Line,
    disassemble,
    disassemble_each,
    read_lines,
)

FMLA, RET, NO_INSTRUCTION = 0x4E22CC20, 0xD65F03C0, 0x00000001
# Two instructions back.
BACK = 0x54FFFFC1


def test_words_become_text_at_their_addresses() -> None:
    code = disassemble([FMLA, RET, BACK], 0x1000)
    assert code == [
        Line(0x1000, FMLA, "fmla v0.4s, v1.4s, v2.4s"),
        Line(0x1004, RET, "ret"),
        Line(0x1008, BACK, "b.ne 0x1000"),
    ]


def test_what_is_no_instruction_keeps_its_place() -> None:
    code = disassemble([NO_INSTRUCTION, RET])
    assert [line.word for line in code] == [NO_INSTRUCTION, RET]
    assert code[0].text.startswith(UNKNOWN)
    assert code[1].text == "ret"


def test_each_word_is_read_once() -> None:
    assert disassemble_each([RET, FMLA, RET]) == {RET: "ret", FMLA: "fmla v0.4s, v1.4s, v2.4s"}
    assert disassemble_each([]) == {}


def test_symbols_head_their_code() -> None:
    printed = """
kernel.o:	file format elf64-littleaarch64

0000000000000000 <kernel>:
       0: d65f03c0     	ret
0000000000000010 <other>:
      10: 97fffffc     	bl	0x0 <kernel>
"""
    assert read_lines(printed) == [
        ("", []),
        ("kernel", [Line(0, RET, "ret")]),
        ("other", [Line(0x10, 0x97FFFFFC, "bl 0x0")]),
    ]
