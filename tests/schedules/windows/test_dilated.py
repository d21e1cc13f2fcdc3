"""Dense windows whose rows lie apart: the template serves them without a copy, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import AVX512, assert_scheduled, dense, depthwise, describe
from tests.schedules.matching import knobs_of, why_not
from tvm_fusionx.schedules.windows.dilated import DILATED

TWO = {"dilation": (2, 2), "padding": (2, 2, 2, 2)}

CASES = {
    "rows and columns": dense(8, (9, 11), 24, (3, 3), **TWO, post=relay.nn.relu),
    "beyond the image": dense(8, (5, 7), 8, (3, 3), dilation=(6, 6), padding=(6, 6, 6, 6)),
    "an image in planes": dense(6, (9, 10), 16, (3, 3), **TWO, blocks=(1, 8)),
    "rows alone, stride 2": dense(
        16, (12, 9), 8, (3, 3), dilation=(3, 1), padding=(3, 1, 3, 1), strides=(2, 1)
    ),
    "no padding, two images": dense(8, (7, 8), 16, (3, 2), dilation=(2, 3), batch=2),
    "result in planes": dense(
        8, (6, 8), 8, (3, 3), **TWO, post=lambda y: relay.layout_transform(y, "NCHW8c", "NCHW")
    ),
    "a residual": dense(8, (7, 7), 8, (3, 3), **TWO, post=lambda y: y + var("r", 1, 1, 7, 7, 8)),
}


@pytest.mark.parametrize("case", few_fast(CASES, 2))
def test_it_is_the_convolution(case: str) -> None:
    assert_scheduled(CASES[case], "dilated", REASSOCIATING)


@pytest.mark.parametrize("seed", few_fast(range(4), 1))
def test_random_windows_are_the_convolution(seed: int) -> None:
    draw = np.random.default_rng(seed)
    kernel = (int(draw.integers(2, 4)), int(draw.integers(1, 5)))
    dilation = (int(draw.integers(2, 6)), int(draw.integers(1, 6)))
    padding = tuple(int(each) for each in draw.integers(0, 7, 4))
    size = tuple(
        max(int(draw.integers(3, 14)), (taps - 1) * step + 1 - first - last)
        for taps, step, first, last in zip(kernel, dilation, padding[:2], padding[2:], strict=True)
    )
    body = dense(
        16,
        size,
        8 * int(draw.integers(1, 4)),
        kernel,
        dilation=dilation,
        padding=padding,
        strides=(int(draw.integers(1, 3)), int(draw.integers(1, 3))),
        batch=int(draw.integers(1, 3)),
        blocks=(int(draw.choice([1, 8])), 8),
    )
    assert_scheduled(body, "dilated", REASSOCIATING)


OTHERS = {
    "neighbours": (dense(8, (6, 7), 8, (3, 3), padding=(1,) * 4), "its window are neighbours"),
    "one row": (
        dense(8, (1, 30), 8, (1, 3), dilation=(1, 4)),
        "the rows of its window are neighbours",
    ),
    "groups": (dense(16, (6, 7), 16, (3, 3), **TWO, groups=2), "its channels are in groups"),
    "depthwise": (
        depthwise(8, (6, 7), (3, 3), dilation=(2, 2), padding=(2,) * 4),
        "it sums no channels",
    ),
    "wide": (
        dense(8, (6, 17), 8, (2, 9), dilation=(2, 2)),
        "its window has more than 7 columns",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_it_serves_nothing_else(case: str) -> None:
    body, reason = OTHERS[case]
    found = why_not(DILATED, describe(body))
    assert found is not None
    assert reason in found


def test_both_cores_get_rows_and_sums_fill_registers() -> None:
    body = dense(128, (25, 25), 48, (3, 3), dilation=(12, 12), padding=(12,) * 4, blocks=(16, 16))
    knobs = knobs_of(DILATED, describe(body, AVX512))
    assert knobs["task_rows"].default <= 13
    sums = knobs["tile_chunks"].default * knobs["tile_columns"].default
    assert AVX512.sums_to_hide_latency <= sums < AVX512.registers
