from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tir
from tvm.script import tir as T  # noqa: N812

from tvm_fusionx.schedules.gpu.pixels import coordinates, in_pixels, why_not_pixels

COLUMNS = 20


@T.prim_func
def _kernel(p0: T.handle("float32", "global"), out: T.handle("float32", "global")) -> None:
    read = T.decl_buffer((960,), data=p0)
    written = T.decl_buffer((960,), data=out)
    group = T.launch_thread("blockIdx.x", 12)
    item = T.launch_thread("threadIdx.x", 20)
    written[group * 80 + item * 4 : group * 80 + item * 4 + 4] = T.max(
        read[group * 80 + item * 4 : group * 80 + item * 4 + 4], T.Broadcast(T.float32(0), 4)
    )


@T.prim_func
def _apart(p0: T.handle("float32", "global"), out: T.handle("float32", "global")) -> None:
    read = T.decl_buffer((960,), data=p0)
    written = T.decl_buffer((960,), data=out)
    item = T.launch_thread("threadIdx.x", 238)
    written[item * 4 + 2 : item * 4 + 6] = T.Broadcast(read[item], 4)


@T.prim_func
def _sum(p0: T.handle("float32", "global"), out: T.handle("float32", "global")) -> None:
    read = T.decl_buffer((960,), data=p0)
    written = T.decl_buffer((4,), data=out)
    for step in range(240):
        written[0:4] = written[0:4] + read[step * 4 : step * 4 + 4]


@T.prim_func
def _pointer(p0: T.handle("float32", "global"), out: T.handle("float32", "global")) -> None:
    written = T.decl_buffer((4,), data=out)
    written[0:4] = T.Broadcast(T.call_extern("float32", "first", p0), 4)


@pytest.mark.parametrize(
    ("func", "place", "is_written", "reason"),
    [
        (_kernel, 0, False, None),
        (_kernel, 1, True, None),
        (_kernel, 1, False, "both read and written"),
        (_apart, 0, False, "loads are no whole pixels"),
        (_apart, 1, True, "stores are no whole pixels"),
        (_sum, 0, False, None),
        (_sum, 1, True, "both read and written"),
        (_pointer, 0, False, "as a pointer"),
    ],
)
def test_what_a_kernel_may_take_as_an_image(
    func: Any, place: int, is_written: bool, reason: str | None
) -> None:
    found = why_not_pixels(func, func.params[place], is_written)
    assert found is None if reason is None else reason in str(found)


def test_loads_and_stores_become_pixels() -> None:
    func = in_pixels(_kernel, dict.fromkeys(_kernel.params, COLUMNS))
    text = func.script()
    assert text.count('T.handle("float32", "global.texture")') == 2
    assert "T.texture2d_load(read, item, group, T.Ramp(0, 1, 4))" in text
    assert "T.texture2d_store(written, item, group, " in text
    assert "read[" not in text
    assert "written[" not in text


def test_a_parameter_that_is_no_image_stays_a_buffer() -> None:
    func = in_pixels(_kernel, {_kernel.params[0]: COLUMNS})
    assert str(func.params[0].type_annotation.storage_scope) == "global.texture"
    assert func.params[1].same_as(_kernel.params[1])
    assert "T.texture2d_store" not in func.script()


def _values(base: Any, bounds: dict[Any, int]) -> tuple[Any, Any, str]:
    analyzer = tvm.arith.Analyzer()
    for var, extent in bounds.items():
        analyzer.bind(var, tvm.ir.Range(0, extent))
    column, row = coordinates(base, COLUMNS, analyzer)
    return column, row, f"{column} {row}"


def _at(expr: Any, values: dict[Any, int]) -> int:
    constants = {var: tir.IntImm("int32", value) for var, value in values.items()}
    return int(tvm.arith.Analyzer().simplify(tir.stmt_functor.substitute(expr, constants)))


def test_a_row_that_the_parts_of_an_index_tell_is_not_divided_for() -> None:
    h, w = tir.Var("h", "int32"), tir.Var("w", "int32")
    column, row, text = _values(h * 80 + w * 4, {h: 12, w: COLUMNS})
    assert not any(sign in text for sign in ("/", "Div", "%", "mod"))
    assert [_at(column, {h: 7, w: 13}), _at(row, {h: 7, w: 13})] == [13, 7]


@pytest.mark.parametrize(("shift_y", "shift_x"), [(-1, -1), (-1, 0), (0, -1), (1, 1), (-1, 3)])
def test_neighbours_inside_of_the_picture_are_where_they_are(shift_y: int, shift_x: int) -> None:
    h, w = tir.Var("h", "int32"), tir.Var("w", "int32")
    base = h * 80 + w * 4 + shift_y * 80 + shift_x * 4
    column, row, _ = _values(base, {h: 12, w: COLUMNS})
    inside = [
        (y, x)
        for y in range(12)
        for x in range(COLUMNS)
        if y + shift_y >= 0 and 0 <= x + shift_x < COLUMNS
    ]
    for y, x in inside:
        values = {h: y, w: x}
        assert (_at(row, values), _at(column, values)) == (y + shift_y, x + shift_x)


def test_a_division_inside_of_an_index_is_one_that_truncates() -> None:
    item = tir.Var("item", "int32")
    index = tir.floordiv(item, 5) * 160 + tir.floormod(item, 5) * 16
    column, row, text = _values(index, {item: 30})
    assert "//" not in text
    assert [_at(row, {item: 13}), _at(column, {item: 13})] == [4, 12]
