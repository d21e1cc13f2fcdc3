"""A turned copy is made of squares in registers, or stays as it is where there are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tests.relay_modules import TARGET
from tvm_fusionx.schedules.parts.turn_squares import turn_square


def _copy(step: int, lanes: int) -> tuple[Any, Any]:
    """Return a schedule of a turned copy of every `step`-th row, and the loop over a square."""
    source = te.placeholder((16 * step, 24), name="source")
    turned = te.compute((16, 24), lambda row, column: source[row * step, column], name="turned")
    sch = tir.Schedule(te.create_prim_func([source, turned]))
    block = sch.get_block("turned")
    sch.transform_layout(block, ("write", 0), lambda row, column: [column, row])
    row, column = sch.get_loops(block)
    columns, square = sch.split(column, [None, lanes])
    rows, lane = sch.split(row, [None, lanes])
    sch.reorder(columns, rows, square, lane)
    return sch, square


def _shuffles(func: Any) -> int:
    found = []
    tir.stmt_functor.ir_transform(func.body, found.append, None, ["tir.Shuffle"])
    return len(found)


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_squares_are_turned_in_registers(lanes: int) -> None:
    sch, square = _copy(1, lanes)
    assert turn_square(sch, square, lanes)
    assert _shuffles(sch.mod["main"]) > 0
    numbers = np.arange(16 * 24, dtype="float32").reshape(16, 24)
    found = tvm.nd.empty((24, 16))
    tvm.build(sch.mod, TARGET)(tvm.nd.array(numbers), found)
    np.testing.assert_array_equal(found.numpy(), numbers.T)


def test_rows_that_do_not_follow_one_another_are_no_square() -> None:
    sch, square = _copy(2, 4)
    before = sch.mod["main"]
    assert not turn_square(sch, square, 4)
    tvm.ir.assert_structural_equal(sch.mod["main"], before)
