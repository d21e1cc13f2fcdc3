"""Which neighbours are rows of one vector, and which are elements of one row."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relay, tir
from tvm.target import Target

from tests.relay_modules import REASSOCIATING, var
from tests.schedules.blocked_blocks import AVX2, assert_scheduled, unscheduled
from tvm_fusionx.schedules import schedule
from tvm_fusionx.schedules.rows.across_rows import is_contiguous, takes_long_rows
from tvm_fusionx.schedules.rows.lane_reductions import split_lane_reductions
from tvm_fusionx.tir.block import Stage, describe_block


def _moments(rows: int, columns: int) -> relay.Expr:
    """Return mean and variance of each row: the first layers of a norm over groups of channels."""
    data = var("x", 1, rows, columns)
    mean = relay.mean(data, axis=2, keepdims=True)
    return relay.Tuple([mean, relay.variance(data, 2, True, with_mean=mean)])


def _sums(body: Any) -> list[Stage]:
    func = split_lane_reductions(unscheduled(body), AVX2.lanes)
    return [each for each in describe_block(func, AVX2).stages.values() if each.is_reduction]


def test_long_rows_are_told_from_short_ones_and_from_columns() -> None:
    assert [takes_long_rows(each) for each in _sums(_moments(8, 4096))].count(True) == 2
    assert not any(map(takes_long_rows, _sums(_moments(8, 64))))
    assert not any(map(takes_long_rows, _sums(relay.sum(var("x", 4096, 8), axis=0))))
    # Weights that are neighbours along outputs, as after a pool.
    gate = relay.nn.contrib_conv2d_nchwc(
        var("x", 1, 32, 1, 1, 16),
        var("w", 2, 32, 1, 1, 16, 8),
        kernel_size=(1, 1),
        channels=16,
        data_layout="NCHW16c",
        out_layout="NCHW8c",
        kernel_layout="OIHW16i8o",
    )
    assert not any(map(takes_long_rows, _sums(gate)))


def test_lanes_of_a_row_are_neighbours_and_overlapping_windows_are_not() -> None:
    lanes = next(each for each in _sums(_moments(8, 4096)) if each.name.endswith("_lanes_32"))
    (lane,) = (it for it in lanes.iters if not it.is_reduction and it.extent == 32)
    assert is_contiguous(lanes, lane)
    pool = relay.nn.avg_pool2d(var("x", 1, 2, 12, 34), pool_size=(3, 3))
    windows = next(each for each in _sums(pool))
    assert not is_contiguous(windows, [it for it in windows.iters if not it.is_reduction][-1])


@pytest.mark.parametrize("rows", [1, 6, 32])
def test_moments_of_long_rows(rows: int) -> None:
    assert_scheduled(_moments(rows, 2403), "rows", REASSOCIATING)


def test_a_norm_over_groups_shares_its_rows_and_takes_each_twice_in_turn() -> None:
    func = schedule(
        unscheduled(_moments(32, 4096)), Target("llvm -mcpu=x86-64-v3 -num-cores=2")
    ).func
    extents = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.For) and node.kind == tir.ForKind.PARALLEL:
            extents.append(int(node.extent))

    tir.stmt_functor.post_order_visit(func.body, visit)
    assert extents == [32]
