from __future__ import annotations

from pathlib import Path

from tests.counting.test_functions import library
from tvm_fusionx.counting.executed import OUTSIDE, Function, Step, functions_of, pieces_of
from tvm_fusionx.counting.trace import Block, Mapping, Trace

A, B, C = 0x4E22CC20, 0xD65F03C0, 0xD503201F


def test_blocks_are_grouped_by_function_and_summed(tmp_path: Path) -> None:
    path = library(tmp_path)
    trace = Trace(
        (
            # Blocks that overlap, as when one is entered in its middle.
            Block(0x5100, 2, (A, B), (64, 0, 0, 0)),
            Block(0x5104, 3, (B,), (0, 64, 0, 128)),
            Block(0x5140, 100, (C,)),
            Block(0x9000, 1, (C,)),
        ),
        (Mapping(0x5000, 0x6000, 0, str(path)),),
    )
    assert functions_of(trace) == [
        Function("second", "lib.so", (Step(0x5140, C, 100),), (0, 0, 0, 0)),
        Function("first", "lib.so", (Step(0x5100, A, 2), Step(0x5104, B, 5)), (64, 64, 0, 128)),
        Function("", OUTSIDE, (Step(0x9000, C, 1),), (0, 0, 0, 0)),
    ]


def test_pieces_are_neighbours_that_ran_equally_often() -> None:
    steps = [Step(0, A, 100), Step(4, A, 101), Step(8, A, 200), Step(16, A, 200)]
    assert pieces_of(steps) == [steps[:2], steps[2:3], steps[3:]]


def test_a_frame_is_told_only_with_symbols() -> None:
    texts = {A: "mov x29, sp", B: "ret"}
    steps = (Step(0, A, 1), Step(4, B, 1))
    assert Function("f", "m", steps, (0, 0, 0, 0)).has_frame(texts)
    assert not Function("", "m", steps, (0, 0, 0, 0)).has_frame(texts)
    assert not Function("f", "m", steps[1:], (0, 0, 0, 0)).has_frame(texts)
