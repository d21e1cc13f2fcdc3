"""Places of flat buffers are equal where index and buffer are, and know their constant part."""

from __future__ import annotations

from tvm import tir

from tvm_fusionx.tir.flat_place import FlatPlace

I = tir.Var("i", "int32")  # noqa: E741
DATA, OTHER = (tir.decl_buffer((64,), "float32", name).data for name in "xy")


def test_equal_indices_of_one_buffer_are_one_place() -> None:
    assert FlatPlace(DATA, I * 4 + 3) == FlatPlace(DATA, I * 4 + 3)
    assert FlatPlace(DATA, I * 4 + 3) != FlatPlace(OTHER, I * 4 + 3)
    assert FlatPlace(DATA, I * 4 + 3) != FlatPlace(DATA, I * 4 + 2)
    assert len({FlatPlace(DATA, I + 1), FlatPlace(DATA, I + 1), FlatPlace(OTHER, I + 1)}) == 2


def test_neighbours_have_one_place_before_their_offsets() -> None:
    first, second = FlatPlace(DATA, I * 4 + 3), FlatPlace(DATA, I * 4 + 7)
    assert (first.offset(), second.offset()) == (3, 7)
    assert first.before(3) == second.before(7)


def test_what_is_no_arithmetic_of_integers_has_no_offset() -> None:
    buffer = tir.decl_buffer((64,), "int32", "table")
    assert FlatPlace(DATA, tir.BufferLoad(buffer, [I]) + 1).offset() is None
