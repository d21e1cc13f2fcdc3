"""Tests of the last tile: they leave whole tiles, and the numbers stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tests.relay_modules import REASSOCIATING, assert_close
from tvm_fusionx.schedules.parts.peel_tests import (
    REST_SUFFIX,
    VECTOR_SUFFIX,
    guard_whole_tiles,
    move_test_around,
    move_test_into_body,
)

LANES = 8


def _padded(columns: int, read: int, scope: str) -> Any:
    """Return a kernel that doubles the first `read` of `columns` columns, tile by tile."""
    data = te.placeholder((3, columns), name="data")
    wide = te.compute((3, columns), lambda i, j: data[i, j] + 1.0, name="wide")
    out = te.compute((3, read), lambda i, j: wide[i, j] * 2.0, name="out")
    sch = tir.Schedule(te.create_prim_func([data, out], index_dtype_override="int64"))
    sch.reverse_compute_inline(sch.get_block("out"))
    block = sch.get_block("wide")
    cache = sch.cache_read(block, 0, scope)
    row, column = sch.get_loops(block)
    tile, lane = sch.split(column, [None, LANES])
    sch.compute_at(cache, tile, preserve_unit_loops=True)
    sch.vectorize(lane)
    sch.parallel(row)
    return sch.mod["main"]


@pytest.mark.parametrize("scope", ["global", "local"])
@pytest.mark.parametrize(("columns", "read"), [(16, 11), (24, 17)])
def test_whole_tiles_are_vectors_without_a_test(columns: int, read: int, scope: str) -> None:
    func = guard_whole_tiles(_padded(columns, read, scope))
    script = func.script()
    assert script.count("T.vectorized") == 1
    assert script.count("T.where") == 1
    assert f'"wide{REST_SUFFIX}"' in script
    assert script.index("T.vectorized") < script.index("T.where")
    data = np.random.default_rng(0).standard_normal((3, columns)).astype("float32")
    out = tvm.nd.array(np.zeros((3, read), "float32"))
    tvm.build(func, "llvm")(tvm.nd.array(data), out)
    assert_close([out.numpy()], [(data[:, :read] + 1) * 2], REASSOCIATING)


def test_a_modulo_that_changes_nothing_hides_no_whole_tile() -> None:
    columns, read = 24, 17

    def around(realize: Any) -> Any:
        names = {each.name: each for each in tir.analysis.undefined_vars(realize.predicate)}
        if not names:
            return None
        tile = names["ax1_0" if "ax1_0" in names else "j_0"]
        same = {tile: tir.floormod(tile, tir.const(columns // LANES, "int64"))}
        test = tir.stmt_functor.substitute(realize.predicate, same)
        return tir.BlockRealize(realize.iter_values, test, realize.block)

    func = _padded(columns, read, "global")
    body = tir.stmt_functor.ir_transform(func.body, None, around, ["tir.BlockRealize"])
    func = func.with_body(body)
    assert f"% T.int64({columns // LANES})" in func.script()
    script = guard_whole_tiles(func).script()
    assert f'"wide{REST_SUFFIX}"' in script
    assert script.index("T.vectorized") < script.index("T.where")


def test_a_kernel_without_tests_is_left_alone() -> None:
    func = _padded(16, 16, "global")
    assert tvm.ir.structural_equal(guard_whole_tiles(func), func)


def test_the_rest_of_a_tile_in_registers_is_unrolled() -> None:
    assert "T.unroll" in guard_whole_tiles(_padded(16, 11, "local")).script()
    assert "T.unroll" not in guard_whole_tiles(_padded(16, 11, "global")).script()


def _tiled(columns: int, read: int) -> Any:
    """Return a kernel that doubles the first `read` columns, in tiles of two vectors."""
    data = te.placeholder((columns // LANES, LANES), name="data")
    wide = te.compute((columns // LANES, LANES), lambda i, j: data[i, j] + 1.0, name="wide")
    out = te.compute((read,), lambda j: wide[j // LANES, j % LANES] * 2.0, name="out")
    sch = tir.Schedule(te.create_prim_func([data, out], index_dtype_override="int64"))
    sch.reverse_compute_inline(sch.get_block("out"))
    func = move_test_into_body(sch.mod["main"], "wide")
    assert "T.where" not in func.script()
    sch = tir.Schedule(func)
    chunk, lane = sch.get_loops(sch.get_block("wide"))
    _, inner = sch.split(chunk, [None, 2])
    sch.unroll(inner)
    sch.vectorize(lane)
    return move_test_around(sch.mod["main"], "wide")


@pytest.mark.parametrize(("columns", "read"), [(32, 29), (32, 24), (48, 19)])
def test_whole_vectors_of_the_last_tile_have_no_test(columns: int, read: int) -> None:
    before = _tiled(columns, read)
    assert before.script().count("T.where") == 1
    func = guard_whole_tiles(before)
    assert f'"wide{VECTOR_SUFFIX}"' in func.script()
    data = np.random.default_rng(0).standard_normal((columns // LANES, LANES)).astype("float32")
    out = tvm.nd.array(np.zeros(read, "float32"))
    tvm.build(func, "llvm")(tvm.nd.array(data), out)
    assert_close([out.numpy()], [(data.reshape(-1)[:read] + 1) * 2], REASSOCIATING)


def test_a_test_moves_into_one_stage_and_back() -> None:
    func = _padded(16, 11, "global")
    assert tvm.ir.structural_equal(move_test_into_body(func, "another"), func)
    assert tvm.ir.structural_equal(move_test_around(func, "wide"), func)
