"""The sizes of a dot product and of its tile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tvm import relay, te

from tests.relay_modules import var
from tests.schedules.blocked_blocks import AVX2, AVX512, describe
from tests.schedules.matrix_blocks import packed_dense
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.processors.rates import FLOAT_BYTES
from tvm_fusionx.schedules.products.plan import (
    COLUMNS_APART,
    DotPlan,
    chunks_of,
    chunks_of_parts,
    plan_dot,
    row_block_of,
    rows_together,
)
from tvm_fusionx.tir.block import describe_block


def _plan(body: relay.Expr, cpu: Cpu) -> DotPlan:
    anchor = describe(body, cpu).anchor
    assert anchor is not None
    return plan_dot(anchor, cpu)


def test_the_panel_of_packed_weights_is_the_tile() -> None:
    plan = _plan(packed_dense(16, 64, 24, width=32), AVX512)
    assert (plan.m, plan.n, plan.k) == (16, 64, 24)
    assert (plan.packed_width, plan.width) == (32, 32)


def test_few_columns_use_a_narrower_vector() -> None:
    plan = _plan(relay.nn.matmul(var("x", 4, 8), var("w", 8, 5)), AVX2)
    assert (plan.lanes, plan.vectors) == (4, 1)


@pytest.mark.parametrize("shares_left", [False, True])
def test_a_batch_that_shares_an_operand_is_no_rows_or_columns(shares_left: bool) -> None:
    one, other = te.placeholder((17, 16), name="one"), te.placeholder((2, 17, 16), name="other")
    k = te.reduce_axis((0, 16), name="k")

    def element(b: Any, i: Any, j: Any) -> Any:
        left = one[i, k] if shares_left else other[b, i, k]
        return te.sum(left * (other[b, j, k] if shares_left else one[j, k]), axis=k)

    product = te.compute((2, 17, 17), element, name="product")
    func = te.create_prim_func([one, other, product], index_dtype_override="int64")
    (stage,) = describe_block(func, AVX512).dots
    plan = plan_dot(stage, AVX512)
    assert (plan.batch, plan.m, plan.n, plan.k) == (2, 17, 17, 16)
    assert (plan.axes.batch, plan.axes.m, plan.axes.n) == ((0,), (1,), (2,))


def test_rows_are_cut_until_every_core_has_work() -> None:
    plan = _plan(packed_dense(64, 16, 24), AVX2)
    assert chunks_of(plan, AVX2) == AVX2.cores


def test_cores_that_exchange_slowly_compute_on_from_rows_of_their_own() -> None:
    near, far = AVX512, replace(AVX512, exchanges_slowly=True)
    small = _plan(packed_dense(128, 512, 128), near)
    assert (chunks_of(small, near), chunks_of(small, far)) == (1, 2)
    # Few rows cost less than to read large weights on both cores.
    large = _plan(packed_dense(16, 768, 3072), near)
    assert chunks_of(large, far) == 1
    # 1,500 rows of 1,536 floats are more than half of the second level.
    long = _plan(packed_dense(1500, 384, 1536), near)
    parts = chunks_of(long, far)
    rows = long.k * FLOAT_BYTES
    assert long.m // parts * rows <= far.l2_for_kernel_bytes < long.m * rows


def test_only_sums_of_packed_weights_are_cut() -> None:
    assert _plan(packed_dense(16, 64, 1024), AVX2).part_choices == (1, 2, 4)
    assert _plan(packed_dense(1, 64, 1024), AVX2).part_choices == (1,)
    plain = relay.nn.dense(var("x", 16, 1024), var("w", 64, 1024))
    assert _plan(plain, AVX2).part_choices == (1,)


@pytest.mark.parametrize("rows", [16, 128, 1024, 1009])
def test_what_a_core_adds_to_stays_in_its_cache(rows: int) -> None:
    plan = replace(_plan(packed_dense(rows, 2048, 8192), AVX512), parts=8)
    chunks, groups = chunks_of_parts(plan, AVX512)
    assert chunks * groups % plan.cores == 0
    tiles, panels = -(-plan.m // plan.rows) // chunks, -(-plan.n // plan.width)
    assert panels >= groups
    read = tiles * plan.rows * plan.k // plan.parts * FLOAT_BYTES
    sums = tiles * plan.rows * -(-panels // groups) * plan.width * FLOAT_BYTES
    assert max(read, sums) <= AVX512.l2_for_kernel_bytes


def test_rows_leave_the_cache_early_when_the_weights_stay_in_it() -> None:
    plan = _plan(packed_dense(64, 32, 24), AVX2)
    assert row_block_of(plan, AVX2) == plan.rows


def test_large_weights_stream_once_for_each_core() -> None:
    plan = _plan(packed_dense(64, 512, 2048), AVX2)
    assert rows_together(plan, AVX2) == 64 // AVX2.cores


def test_cores_share_the_columns_of_large_weights() -> None:
    plan = _plan(packed_dense(64, 512, 2048), AVX2)
    assert row_block_of(plan, AVX2) == COLUMNS_APART


def test_cores_share_the_rows_where_these_are_more_than_the_weights() -> None:
    plan = _plan(packed_dense(1500, 384, 384), AVX2)
    assert row_block_of(plan, AVX2) == rows_together(plan, AVX2) > plan.rows


@pytest.mark.parametrize("rows", [197, 257])
def test_cores_share_rows_that_no_tile_divides(rows: int) -> None:
    # All of them fit the cache, and would be one task.
    plan = _plan(packed_dense(rows, 64, 192), AVX512)
    assert rows_together(plan, AVX512) == rows
    assert row_block_of(plan, AVX512) == COLUMNS_APART
    alone = replace(AVX512, cores=1)
    assert row_block_of(_plan(packed_dense(rows, 64, 192), alone), alone) == rows


def test_one_core_reads_weights_once_either_way() -> None:
    plan = _plan(packed_dense(64, 512, 2048), replace(AVX2, cores=1))
    assert row_block_of(plan, replace(AVX2, cores=1)) == 64
