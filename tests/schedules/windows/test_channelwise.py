"""Windows that keep channels apart: the templates serve them, and the numbers are right."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tvm import relay, te, tir

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    AVX2,
    AVX512,
    assert_scheduled,
    cut_to,
    dense,
    depthwise,
    describe,
    hard_swish,
)
from tests.schedules.matching import knobs_of, why_not
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.template import Knobs
from tvm_fusionx.schedules.windows.channelwise import (
    DEPTHWISE,
    POOL,
    find_padded,
)
from tvm_fusionx.schedules.windows.structure import PaddedWindow, Window, find_window
from tvm_fusionx.tir.block import describe_block
from tvm_fusionx.tir.indices import simplify_indices

DEPTHWISE_BLOCKS = {
    "window of 3": depthwise(16, (7, 13), (3, 3), padding=(1, 1, 1, 1), post=hard_swish),
    "window of 5, stride 2": depthwise(16, (9, 11), (5, 5), strides=(2, 2), padding=(2, 2, 2, 2)),
    "dilated, padding differs": depthwise(
        8, (11, 9), (3, 3), strides=(2, 1), padding=(2, 2, 1, 3), dilation=(2, 2)
    ),
    "chunks of 6": depthwise(12, (5, 4), (3, 3), padding=(1, 1, 1, 1), block=6),
    "channels cut off": depthwise(
        16, (7, 13), (3, 3), padding=(1, 1, 1, 1), post=functools.partial(cut_to, 13)
    ),
    "window of 9": depthwise(8, (9, 12), (1, 9), padding=(0, 4, 0, 4)),
}


@pytest.mark.parametrize("case", few_fast(DEPTHWISE_BLOCKS, 1))
def test_a_block_around_a_depthwise_convolution_is_one_right_kernel(case: str) -> None:
    assert_scheduled(DEPTHWISE_BLOCKS[case], "depthwise", REASSOCIATING)


def test_it_serves_no_dense_convolution() -> None:
    info = describe(dense(8, (4, 4), 8, (3, 3)))
    assert why_not(DEPTHWISE, info) == "its channels are summed"


WINDOW = {"pool_size": (3, 3), "strides": (2, 2), "padding": (1, 1, 1, 1), "layout": "NCHW8c"}
VIDEO = var("x", 4, 2, 7, 9, 8)
SIDE_BY_SIDE = {"pool_size": (2, 2), "strides": (2, 2), "padding": (1, 1), "layout": "NCHW8c"}

POOL_BLOCKS = {
    "maximum": relay.nn.max_pool2d(var("x", 1, 2, 11, 13, 8), **WINDOW),
    "average": relay.nn.avg_pool2d(var("x", 1, 2, 11, 13, 8), **WINDOW),
    "maximum of neighbouring images": relay.nn.max_pool2d(
        relay.maximum(*(relay.strided_slice(VIDEO, [i], [4], [2], axes=[0]) for i in (0, 1))),
        **SIDE_BY_SIDE,
    ),
    "average of the padding too": relay.nn.avg_pool2d(
        var("x", 1, 2, 11, 13, 8), **WINDOW, count_include_pad=True
    ),
    "global average": relay.nn.global_avg_pool2d(var("x", 2, 3, 5, 7, 8), layout="NCHW8c"),
    "global maximum": relay.nn.relu(
        relay.nn.global_max_pool2d(var("x", 1, 3, 5, 7, 8), layout="NCHW8c")
    ),
}


@pytest.mark.parametrize("case", few_fast(POOL_BLOCKS, 1))
def test_a_block_around_a_pooling_is_one_right_kernel(case: str) -> None:
    assert_scheduled(POOL_BLOCKS[case], "pool", REASSOCIATING)


def test_it_serves_no_convolution() -> None:
    info = describe(depthwise(8, (4, 4), (3, 3)))
    assert why_not(POOL, info) == "its reduction is not one tensor's window"


def _knobs(body: relay.Expr, cpu: Cpu) -> Knobs:
    info = describe(body, cpu)
    template = DEPTHWISE if info.dots else POOL
    return knobs_of(template, info)


@pytest.mark.slow
def test_more_registers_hold_more_columns() -> None:
    body = depthwise(16, (10, 20), (3, 3), padding=(1, 1, 1, 1))
    assert _knobs(body, AVX2)["tile_columns"].default == 5
    assert _knobs(body, AVX512)["tile_columns"].default == 10


def test_a_global_pooling_sums_several_chunks_at_once() -> None:
    pooled = relay.nn.global_avg_pool2d(var("x", 1, 12, 7, 7, 8), layout="NCHW8c")
    knobs = _knobs(pooled, AVX2)
    assert (knobs["tile_columns"].default, knobs["tile_chunks"].default) == (1, 6)


def _found(body: relay.Expr) -> PaddedWindow | str:
    info = describe(body)
    window = find_window(info)
    assert isinstance(window, Window)
    return find_padded(info, window)


def _integers(
    offset: int | None,
    padding: tuple[int, ...] = (1, 1, 1, 1),
    block: int = 8,
    *,
    is_parameter: bool = False,
) -> relay.Expr:
    """Return a depthwise convolution of bytes less a number, or of 16 bits as they are."""
    x = var("x", 1, 16 // block, 7, 13, block, dtype="int16" if offset is None else "uint8")
    if offset is not None:
        x = relay.cast(x, "int16")
    if offset:
        zero = var("z", dtype="int16") if is_parameter else relay.const(offset, "int16")
        x = x - zero
    weights = var("w", 16 // block, 1, 3, 3, 1, block, dtype="int16")
    layouts = f"NCHW{block}c", f"OIHW1i{block}o", f"NCHW{block}c", "int32"
    sums = relay.nn.contrib_depthwise_conv2d_nchwc(
        x, weights, (1, 1), padding, (1, 1), 16, 16, (3, 3), *layouts
    )
    return relay.cast(sums, "float32") * relay.const(0.5)


INTEGERS = {
    "bytes": (0,),
    "bytes less a zero point": (9,),
    "without a border": (9, (0, 0, 0, 0)),
    "as they are": (None,),
}


@pytest.mark.parametrize("case", few_fast(INTEGERS, 1))
def test_windows_of_integers_are_exact(case: str) -> None:
    assert_scheduled(_integers(*INTEGERS[case]), "depthwise", 0.0)


def test_a_zero_point_may_be_a_parameter() -> None:
    assert_scheduled(_integers(9, is_parameter=True), "depthwise", 0.0)


@pytest.mark.parametrize("case", ["bytes", "bytes less a zero point", "without a border"])
def test_bytes_are_read_in_place(case: str) -> None:
    found = _found(_integers(*INTEGERS[case]))
    assert isinstance(found, PaddedWindow)
    assert found.widening is not None
    assert str(found.data.dtype) == "uint8"
    assert [int(each) for each in found.widening.subtracted] == ([9] if INTEGERS[case][0] else [])


def test_integers_of_another_origin_are_not_read_in_place() -> None:
    assert _found(_integers(None)) == "it is made of int16"


def test_the_data_and_its_padding_are_found() -> None:
    found = _found(depthwise(8, (5, 6), (3, 3), padding=(1, 2, 1, 0)))
    assert isinstance(found, PaddedWindow)
    assert found.padding == (1, 2)
    assert [int(extent) for extent in found.data.shape] == [1, 1, 5, 6, 8]


REFUSED = {
    "0 stages are before it, not a padding alone": depthwise(8, (5, 6), (3, 3)),
    "2 stages are before it, not a padding alone": relay.nn.max_pool2d(
        relay.exp(var("x", 1, 1, 5, 6, 8)), **WINDOW
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
