"""Padded windows that keep channels apart: no padded copy, and the numbers are right."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay, te, tir

from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    AVX2,
    assert_scheduled,
    depthwise,
    describe,
    unscheduled,
)
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.windows.channelwise_kernel import PaddedWindow, find_padded
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.tir.block import describe_block
from tvm_fusionx.tir.indices import simplify_indices

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


def _found(body: relay.Expr) -> PaddedWindow | str:
    info = describe(body)
    window = find_window(info)
    assert isinstance(window, Window)
    return find_padded(info, window)


def test_the_data_and_its_padding_are_found() -> None:
    found = _found(depthwise(8, (5, 6), (3, 3), padding=(1, 2, 1, 0)))
    assert isinstance(found, PaddedWindow)
    assert found.padding == (1, 2)
    assert [int(extent) for extent in found.data.shape] == [1, 1, 5, 6, 8]


REFUSED = {
    "0 stages are before it, not a padding alone": depthwise(8, (5, 6), (3, 3)),
    "2 stages are before it, not a padding alone": relay.nn.max_pool2d(
        relay.exp(var("x", 1, 1, 5, 6, 8)), **POOL
    ),
    "what is before it is no padding": relay.nn.max_pool2d(
        relay.exp(var("x", 1, 1, 5, 6, 8)), (3, 3), layout="NCHW8c"
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_another_window_says_why(reason: str) -> None:
    assert _found(REFUSED[reason]) == reason


LOWEST = float(np.finfo("float32").min)


@pytest.mark.parametrize("value", [0.0, LOWEST])
def test_padding_by_what_the_window_starts_with_changes_nothing(value: float) -> None:
    data = te.placeholder((1, 1, 5, 5, 8), name="data")
    wide = te.compute(
        (1, 1, 7, 5, 8),
        lambda n, c, h, w, i: te.if_then_else(
            te.all(h >= 1, h < 6), data[n, c, h - 1, w, i], tir.const(value, "float32")
        ),
        name="wide",
    )
    axes = [te.reduce_axis((0, 3), name=name) for name in ("rows", "columns")]
    out = te.compute(
        (1, 1, 5, 3, 8),
        lambda n, c, h, w, i: te.max(wide[n, c, h + axes[0], w + axes[1], i], axis=axes),
        name="out",
    )
    func = te.create_prim_func([data, out], index_dtype_override="int64")
    info = describe_block(simplify_indices(func), AVX2)
    window = find_window(info)
    assert isinstance(window, Window)
    found = find_padded(info, window)
    if value == LOWEST:
        assert isinstance(found, PaddedWindow)
    else:
        assert found == "its padding changes the result"
