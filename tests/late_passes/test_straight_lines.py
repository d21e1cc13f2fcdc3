"""Lines of stores end where something else stands, and neighbours are paired once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import tvm
from tvm import tir

from tests.late_passes.halves_in_pairs import doubled, lines, lowered, widened
from tvm_fusionx.late_passes.straight_lines import (
    change_lines,
    is_choice,
    neighbours,
    vector_place,
)
from tvm_fusionx.tir.flat_place import FlatPlace

I = tir.Var("i", "int32")  # noqa: E741
BUFFER = tir.decl_buffer((64,), "float16", "x")


@pytest.mark.parametrize(
    ("offsets", "pairs"),
    [([0, 4, 8], [(0, 4)]), ([12, 0, 8, 4], [(0, 4), (8, 12)]), ([0, 3, 8], []), ([4], [])],
)
def test_neighbours_are_paired_once(offsets: list[int], pairs: list[tuple[int, int]]) -> None:
    found = neighbours([FlatPlace(BUFFER.data, I * 64 + each) for each in offsets], 4)
    assert [(a.offset(), b.offset()) for a, b in found] == pairs


def test_a_line_is_as_long_as_stores_follow_one_another() -> None:
    met: list[int] = []

    def change(line: Sequence[Any]) -> None:
        met.append(len(line))

    func = lines([0, 4, 8], doubled, "float32", "float16")
    kept = lowered(func, change_lines("tvm_fusionx.Test", change))
    assert met == [3]
    assert tvm.ir.structural_equal(kept, lowered(func))


def test_places_are_those_of_neighbouring_elements() -> None:
    load = widened(BUFFER, I * 8).value
    assert vector_place(load, 4) == FlatPlace(BUFFER.data, I * 8)
    assert vector_place(load, 8) is None
    assert vector_place(tir.BufferLoad(BUFFER, [I]), 1) is None
    assert vector_place(tir.BufferLoad(BUFFER, [tir.Ramp(I, 2, 4)]), 4) is None
    some = tir.Broadcast(tir.const(1, "bool"), 4)
    assert vector_place(tir.BufferLoad(BUFFER, [tir.Ramp(I, 1, 4)], some), 4) is None


def test_a_choice_is_told_from_other_calls() -> None:
    zero = tir.const(0.0, "float32")
    assert is_choice(tir.if_then_else(I > 0, zero, zero))
    assert is_choice(tir.Select(I > 0, zero, zero))
    assert not is_choice(tir.exp(zero))
