from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.late_passes.dot_operands import side_by_side

LANES = 4
BYTES = tir.decl_buffer((256,), "int8", "bytes")
OTHERS = tir.decl_buffer((256,), "int8", "others")


def _columns(depth: int, stride: int, start: Any = 0) -> list[Any]:
    return [
        tir.BufferLoad(BYTES, [tir.Ramp(start + place, stride, LANES)]) for place in range(depth)
    ]


def _shared(*places: Any) -> list[Any]:
    return [tir.Broadcast(tir.BufferLoad(BYTES, [place]), LANES) for place in places]


@pytest.mark.parametrize("depth", [2, 4])
def test_columns_that_lie_side_by_side_are_one_load(depth: int) -> None:
    base = tir.Var("base", "int32")
    made = side_by_side(_columns(depth, depth, base), LANES)
    expected = tir.BufferLoad(BYTES, [tir.Ramp(base, 1, depth * LANES)])
    assert tvm.ir.structural_equal(made, expected)


@pytest.mark.parametrize(("depth", "word"), [(2, "int16"), (4, "int32")])
def test_shared_bytes_are_a_word_that_is_repeated(depth: int, word: str) -> None:
    made = side_by_side(_shared(*range(8, 8 + depth)), LANES)
    assert made.dtype == f"int8x{depth * LANES}"
    (repeated,) = made.args
    assert repeated.lanes == LANES
    assert repeated.value.dtype == word
    (load,) = repeated.value.args
    assert int(load.indices[0].base) == 8


@pytest.mark.parametrize(
    "elements",
    [
        _columns(2, 3),
        _columns(2, 2)[::-1],
        _shared(0, 2),
        [*_shared(0), tir.Broadcast(tir.BufferLoad(OTHERS, [1]), LANES)],
        [*_shared(0), *_columns(2, 2)[1:]],
        [tir.Broadcast(tir.const(1, "int8"), LANES)] * 2,
    ],
)
def test_others_are_none(elements: list[Any]) -> None:
    assert side_by_side(elements, LANES) is None
