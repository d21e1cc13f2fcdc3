"""Padded windows that keep channels apart: no padded copy, and the numbers are right."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, module, var
from tests.sampled import few_fast, few_fast_rows
from tests.schedules.blocked_blocks import (
    assert_computes,
    assert_scheduled,
    dense,
    depthwise,
    eight_lanes,
    unscheduled,
)
from tests.schedules.matching import matched
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.windows.first_layer import FIRST_LAYER
from tvm_fusionx.tir.block import describe_block

POOL = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "layout": "NCHW8c"}


def _maximum(rows: int, columns: int, **how: object) -> relay.Expr:
    return relay.nn.max_pool2d(var("x", 1, 6, rows, columns, 8), **{**POOL, **how})


PADDED = {
    "odd extents": depthwise(48, (7, 5), (3, 3), padding=(1, 1, 1, 1), post=relay.nn.relu),
    "stride 2": depthwise(16, (14, 14), (3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
    "below and to the right": depthwise(8, (6, 19), (3, 3), strides=(2, 2), padding=(0, 0, 1, 1)),
    "more padding than rows": depthwise(8, (2, 3), (5, 5), padding=(4, 4, 4, 4)),
    "dilation": depthwise(8, (9, 7), (3, 3), padding=(3, 2, 3, 2), dilation=(3, 2)),
    "long window": depthwise(16, (3, 40), (1, 11), padding=(0, 5, 0, 5)),
    "largest": _maximum(13, 35),
    "largest of few pixels": _maximum(2, 3),
    "largest, put in order": relay.layout_transform(_maximum(5, 7), "NCHW8c", "NCHW"),
    "largest, enlarged": relay.image.resize2d(
        _maximum(6, 6), (7, 5), layout="NCHW8c", method="nearest_neighbor", rounding_method="floor"
    ),
    "average": relay.nn.avg_pool2d(var("x", 2, 2, 7, 6, 8), **POOL, count_include_pad=True),
}


@pytest.mark.parametrize("case", few_fast(PADDED, 2))
def test_a_padded_window_is_right(case: str) -> None:
    template = "depthwise" if "depthwise" in str(PADDED[case]) else "pool"
    assert_scheduled(PADDED[case], template, REASSOCIATING)


@pytest.mark.parametrize("case", ["odd extents", "largest"])
def test_nothing_is_copied_to_be_padded(case: str) -> None:
    func = schedule(unscheduled(PADDED[case]), resolve_target(TARGET)).func
    assert "if_then_else" not in func.script()
    assert "alloc_buffer" not in func.script()


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding"),
    few_fast_rows([((9, 23), 3, 2, (1, 1, 1, 1)), ((12, 17), 7, 2, (3, 2, 3, 3))], 1),
)
def test_weights_with_addresses_of_their_own_are_the_same(
    size: tuple[int, int], kernel: int, stride: int, padding: tuple[int, int, int, int]
) -> None:
    body = dense(
        3, size, 32, (kernel, kernel), strides=(stride, stride), padding=padding, blocks=(1, 8)
    )
    target = eight_lanes()
    cpu = replace(describe_cpu(target), registers=32, multiplies_by_lane=True)
    match = matched(FIRST_LAYER, describe_block(unscheduled(body, target), cpu))
    knobs = {name: knob.default for name, knob in match.knobs().items()}
    # Tiles that touch the border, and ones that share a loop.
    func = match.emit({**knobs, "tile_chunks": 2, "tile_columns": 3})
    assert "fusionx_hidden_number" in func.script()
    assert_computes(func, target, module(body))
