"""Tiles that do not divide the columns overlap, and every column is written."""

from __future__ import annotations

import pytest
import tvm
from tvm import tir

from tests.schedules.blocked_blocks import dense, describe
from tvm_fusionx.schedules.windows.conv_overlap import overlap_columns
from tvm_fusionx.schedules.windows.isolate import isolate_window
from tvm_fusionx.schedules.windows.structure import Window, find_window


@pytest.mark.parametrize(("width", "columns", "widened"), [(13, 7, 14), (13, 5, 15), (8, 3, 9)])
def test_the_local_tensor_is_widened_to_whole_tiles(width: int, columns: int, widened: int) -> None:
    info = describe(dense(8, (2, width), 8, (1, 1)))
    window = find_window(info)
    assert isinstance(window, Window)
    sch = tir.Schedule(tvm.IRModule({"main": info.func}), debug_mask="none")
    stages = isolate_window(sch, info, window)
    func = overlap_columns(sch.mod["main"], stages.reduce, stages.write, columns)
    after = describe_extents(func)
    assert after[stages.reduce][3] == widened
    assert after[stages.write][3] == widened
    # The output itself keeps its shape: the moved columns fall inside of it.
    assert int(func.buffer_map[func.params[-1]].shape[3]) == width


def describe_extents(func: tir.PrimFunc) -> dict[str, list[int]]:
    """Return the extents of the iterations of every stage."""
    found: dict[str, list[int]] = {}

    def visit(node: object) -> None:
        if isinstance(node, tir.Block):
            found[node.name_hint] = [int(it.dom.extent) for it in node.iter_vars]

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found
