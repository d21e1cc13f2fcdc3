"""Reductions split into vector lanes: which ones, and that nothing of a row is lost."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay, te

from tests.relay_modules import REASSOCIATING, assert_close, var
from tests.schedules.blocked_blocks import describe
from tvm_fusionx.schedules.rows.lane_reductions import (
    LONG_ROW_GROUPS,
    LONG_ROW_LANES,
    split_lane_reductions,
    why_not_split,
)
from tvm_fusionx.tir.block import collect_blocks, describe_stage

LANES = 8
# Two groups of lanes and more, and their halves.
NAMES = ["total_lanes_8", "total_lanes_4", "total"]


def _row_sums(rows: int, columns: int) -> te.PrimFunc:
    data = te.placeholder((rows, columns), name="data")
    k = te.reduce_axis((0, columns), name="k")
    total = te.compute((rows,), lambda i: te.sum(data[i, k] * 2.0, axis=k), name="total")
    return te.create_prim_func([data, total], index_dtype_override="int64")


def _sum_of_rows(func: te.PrimFunc, data: np.ndarray) -> np.ndarray:
    out = tvm.nd.array(np.zeros(len(data), data.dtype))
    tvm.build(func, "llvm")(tvm.nd.array(data), out)
    return out.numpy()


@pytest.mark.parametrize("columns", [16, 17, 31, 61])
def test_rows_of_any_length(columns: int) -> None:
    func = split_lane_reductions(_row_sums(3, columns), LANES)
    assert [block.name_hint for block in collect_blocks(func)] == NAMES
    data = np.random.default_rng(0).standard_normal((3, columns)).astype("float32")
    assert_close([_sum_of_rows(func, data)], [2 * data.sum(axis=1)], REASSOCIATING)


@pytest.mark.parametrize("columns", [*range(16, 32), 256, 263, 271])
def test_every_element_counts_once(columns: int) -> None:
    func = split_lane_reductions(_row_sums(columns, columns), LANES)
    # Exact: each row has one element of its own, in another place.
    data = np.diag(np.arange(1, columns + 1)).astype("float32")
    np.testing.assert_array_equal(_sum_of_rows(func, data), 2 * data.diagonal())


def test_no_chain_of_additions_is_longer_than_the_groups_and_a_few_halves() -> None:
    """Summed one after another, small elements would be lost beside a large first one."""
    columns = 4096
    data = np.full((1, columns), 0.5, "float32")
    data[0, 0] = 2.0**23
    exact = 2 * data.astype("float64").sum()
    found = _sum_of_rows(split_lane_reductions(_row_sums(1, columns), LANES), data)
    longest = columns // LONG_ROW_LANES
    assert abs(found[0] - exact) <= longest


def test_long_rows_keep_more_partial_sums() -> None:
    func = split_lane_reductions(_row_sums(3, LONG_ROW_GROUPS * LANES), LANES)
    assert collect_blocks(func)[0].name_hint == f"total_lanes_{LONG_ROW_LANES}"


def test_gathered_rows() -> None:
    table, ids = te.placeholder((9, 40), name="table"), te.placeholder((5,), "int32", "ids")
    k = te.reduce_axis((0, 40), name="k")
    total = te.compute((5,), lambda i: te.sum(table[ids[i], k], axis=k), name="total")
    func = te.create_prim_func([table, ids, total], index_dtype_override="int64")
    func = split_lane_reductions(func, LANES)
    assert [block.name_hint for block in collect_blocks(func)] == NAMES
    data = np.random.default_rng(0).standard_normal((9, 40)).astype("float32")
    rows = np.asarray([8, 0, 3, 3, 1], "int32")
    out = tvm.nd.array(np.zeros(5, "float32"))
    tvm.build(func, "llvm")(tvm.nd.array(data), tvm.nd.array(rows), out)
    assert_close([out.numpy()], [data[rows].sum(axis=1)], REASSOCIATING)


def test_a_kept_stage_is_left_alone() -> None:
    func = _row_sums(3, 64)
    assert split_lane_reductions(func, LANES, keep=frozenset(["total"])).same_as(func)


REFUSED = {
    "not a reduction": relay.exp(var("x", 4, 64)),
    "not a single store": relay.argmax(var("x", 4, 64), axis=1),
    "too short": relay.sum(var("x", 4, 9), axis=1),
    "nothing is read contiguously": relay.sum(var("x", 64, 4), axis=0),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_refusal_has_a_reason(reason: str) -> None:
    stage = list(describe(REFUSED[reason]).stages.values())[-1]
    found = why_not_split(describe_stage(stage.block), LANES)
    assert found is not None
    assert reason in found or reason == "not a single store"
