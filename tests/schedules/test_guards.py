"""Tests of the last tile: they leave whole tiles, and the numbers stay right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tests.relay_modules import REASSOCIATING, assert_close
from tvm_fusionx.schedules.guards import REST_SUFFIX, guard_whole_tiles

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


def test_a_kernel_without_tests_is_left_alone() -> None:
    func = _padded(16, 16, "global")
    assert tvm.ir.structural_equal(guard_whole_tiles(func), func)


def test_the_rest_of_a_tile_in_registers_is_unrolled() -> None:
    assert "T.unroll" in guard_whole_tiles(_padded(16, 11, "local")).script()
    assert "T.unroll" not in guard_whole_tiles(_padded(16, 11, "global")).script()
