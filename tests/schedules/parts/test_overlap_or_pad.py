"""Axes that a tile does not divide: widened stages compute the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tests.relay_modules import REASSOCIATING, assert_close
from tests.schedules.blocked_blocks import dense, describe
from tvm_fusionx.schedules.parts.overlap_or_pad import OVERLAP, PAD, widen_axis
from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.schedules.windows.isolate import isolate_window
from tvm_fusionx.schedules.windows.structure import Window, find_window

ROWS, COLUMNS, DEPTH = 5, 13, 7


def _product(finish: bool) -> tir.Schedule:
    left = te.placeholder((ROWS, DEPTH), name="left")
    right = te.placeholder((DEPTH, COLUMNS), name="right")
    k = te.reduce_axis((0, DEPTH), name="k")
    product = te.compute(
        (ROWS, COLUMNS), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="product"
    )
    result = te.compute((ROWS, COLUMNS), lambda i, j: product[i, j] + 1.0, name="result")
    out = result if finish else product
    sch = tir.Schedule(te.create_prim_func([left, right, out], index_dtype_override="int64"))
    sch.cache_write(sch.get_block("product"), 0, "local")
    return sch


@pytest.mark.parametrize(("mode", "finish"), [(OVERLAP, False), (PAD, True)])
@pytest.mark.parametrize(("axis", "tile"), [(0, 4), (1, 8), (1, 13)])
def test_widened_product(mode: str, finish: bool, axis: int, tile: int) -> None:
    func = _product(finish).mod["main"]
    widened = widen_axis(func, "product", "product_local", axis, tile, mode)
    extent = (ROWS, COLUMNS)[axis]
    assert widened.same_as(func) == (extent % tile == 0)
    rng = np.random.default_rng(0)
    left = rng.standard_normal((ROWS, DEPTH)).astype("float32")
    right = rng.standard_normal((DEPTH, COLUMNS)).astype("float32")
    out = tvm.nd.array(np.zeros((ROWS, COLUMNS), "float32"))
    tvm.build(widened, "llvm")(tvm.nd.array(left), tvm.nd.array(right), out)
    assert_close([out.numpy()], [left @ right + np.float32(finish)], REASSOCIATING)


def test_an_axis_shorter_than_a_tile_is_not_overlapped() -> None:
    func = _product(finish=False).mod["main"]
    with pytest.raises(UnschedulableError, match="a tile of 6 is longer than the axis of 5"):
        widen_axis(func, "product", "product_local", 0, ROWS + 1, OVERLAP)


def _reshaped_product(rows: tuple[int, int], columns: int) -> tir.Schedule:
    left = te.placeholder((rows[0] * rows[1], DEPTH), name="left")
    right = te.placeholder((DEPTH, columns), name="right")
    k = te.reduce_axis((0, DEPTH), name="k")
    product = te.compute(
        (rows[0] * rows[1], columns),
        lambda i, j: te.sum(left[i, k] * right[k, j], axis=k),
        name="product",
    )
    reshaped = te.compute(
        (*rows, columns), lambda b, i, j: product[b * rows[1] + i, j], name="reshaped"
    )
    result = te.compute((*rows, columns), lambda b, i, j: reshaped[b, i, j] + 1.0, name="result")
    sch = tir.Schedule(te.create_prim_func([left, right, result], index_dtype_override="int64"))
    sch.cache_write(sch.get_block("product"), 0, "local")
    sch.reverse_compute_inline(sch.get_block("reshaped"))
    return sch


def test_padding_follows_the_axis_through_a_reshape() -> None:
    func = _reshaped_product((2, 4), 3).mod["main"]
    widened = widen_axis(func, "product", "product_local", 1, 2, PAD)
    shapes = {each.name: list(each.shape) for each in widened.body.block.alloc_buffers}
    assert shapes["reshaped"] == [2, 4, 4]
    rng = np.random.default_rng(0)
    left = rng.standard_normal((8, DEPTH)).astype("float32")
    right = rng.standard_normal((DEPTH, 3)).astype("float32")
    out = tvm.nd.array(np.zeros((2, 4, 3), "float32"))
    tvm.build(widened, "llvm")(tvm.nd.array(left), tvm.nd.array(right), out)
    assert_close([out.numpy()], [(left @ right).reshape(2, 4, 3) + 1], REASSOCIATING)


def test_an_axis_that_a_reshape_splits_is_not_padded() -> None:
    func = _reshaped_product((2, 4), 3).mod["main"]
    with pytest.raises(UnschedulableError, match="splits the axis"):
        widen_axis(func, "product", "product_local", 0, 3, PAD)


def test_an_axis_that_is_tested_already_is_not_widened() -> None:
    left = te.placeholder((ROWS, DEPTH), name="left")
    k = te.reduce_axis((0, DEPTH), name="k")
    product = te.compute(
        (ROWS, COLUMNS), lambda i, j: te.sum(left[i, k] * left[j % ROWS, k], axis=k), name="product"
    )
    part = te.compute((ROWS, COLUMNS - 2), lambda i, j: product[i, j], name="part")
    sch = tir.Schedule(te.create_prim_func([left, part], index_dtype_override="int64"))
    sch.cache_write(sch.get_block("product"), 0, "local")
    sch.reverse_compute_inline(sch.get_block("part"))
    func = sch.mod["main"]
    with pytest.raises(UnschedulableError, match="keeps only a part"):
        widen_axis(func, "product", "product_local", 1, 8, OVERLAP)
    assert not widen_axis(func, "product", "product_local", 0, 4, OVERLAP).same_as(func)


@pytest.mark.parametrize(("width", "columns", "widened"), [(13, 7, 14), (13, 5, 15), (8, 3, 9)])
def test_the_local_tensor_of_a_window_is_widened_to_whole_tiles(
    width: int, columns: int, widened: int
) -> None:
    info = describe(dense(8, (2, width), 8, (1, 1)))
    window = find_window(info)
    assert isinstance(window, Window)
    sch = tir.Schedule(tvm.IRModule({"main": info.func}), debug_mask="none")
    stages = isolate_window(sch, info, window)
    func = widen_axis(sch.mod["main"], stages.reduce, stages.write, 3, columns, OVERLAP)
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
