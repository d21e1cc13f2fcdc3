"""First convolutions: the template serves them without copying the image, and nothing else."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    AVX2,
    AVX512,
    NEON,
    assert_scheduled,
    cut_to,
    dense,
    depthwise,
    describe,
    hard_swish,
)
from tests.schedules.matching import knobs_of, why_not
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.windows import first_layer
from tvm_fusionx.schedules.windows.first_layer import (
    FIRST_LAYER,
    find_image_window,
    image_tiles,
)
from tvm_fusionx.schedules.windows.result import runs_of_pixels
from tvm_fusionx.schedules.windows.structure import PaddedWindow, Window
from tvm_fusionx.schedules.windows.tiling import COLUMNS_TO_STREAM

ONE = {"blocks": (1, 8)}
PAD = (1, 1, 1, 1)

IMAGES = {
    "stride 2": dense(3, (11, 14), 16, (3, 3), strides=(2, 2), padding=PAD, post=hard_swish, **ONE),
    "stride 1": dense(3, (7, 29), 24, (3, 3), padding=PAD, post=relay.nn.relu, **ONE),
    "no padding": dense(3, (9, 12), 8, (3, 3), **ONE),
    "padding differs": dense(4, (8, 7), 8, (3, 2), padding=(0, 1, 2, 0), **ONE),
    "more padding than window": dense(3, (4, 5), 8, (3, 3), padding=(4, 4, 4, 4), **ONE),
    "wide window": dense(3, (19, 21), 16, (7, 7), strides=(2, 2), padding=(3, 3, 3, 3), **ONE),
    "dilated": dense(2, (9, 12), 16, (3, 3), padding=(2, 2, 2, 2), dilation=(2, 2), **ONE),
    "one channel, two images": dense(1, (6, 9), 8, (3, 3), padding=PAD, batch=2, **ONE),
    "one column": dense(3, (9, 1), 8, (3, 3), padding=PAD, **ONE),
    "chunks of 16": dense(3, (8, 9), 32, (3, 3), padding=PAD, blocks=(1, 16)),
    "patches": dense(3, (8, 20), 16, (4, 4), strides=(4, 4), **ONE),
    "channels cut off": dense(
        3, (7, 9), 16, (3, 3), padding=PAD, post=functools.partial(cut_to, 13), **ONE
    ),
    "a residual": dense(
        3, (6, 7), 8, (3, 3), padding=PAD, post=lambda y: y + var("r", 1, 1, 6, 7, 8), **ONE
    ),
}


@pytest.mark.parametrize("case", few_fast(IMAGES, 1))
def test_it_is_the_convolution(case: str) -> None:
    assert_scheduled(IMAGES[case], "first_layer", REASSOCIATING)


OTHERS = {
    "blocked data": (dense(8, (6, 7), 8, (3, 3), padding=PAD), "no image of at most"),
    "many channels": (dense(5, (6, 7), 8, (3, 3), padding=PAD, **ONE), "no image of at most"),
    "one pixel": (dense(3, (6, 7), 8, (1, 1), **ONE), "its window is one pixel"),
    "groups": (
        dense(2, (6, 7), 16, (3, 3), padding=PAD, groups=2, **ONE),
        "its channels are in groups",
    ),
    "depthwise": (depthwise(8, (6, 7), (3, 3), padding=PAD), "it sums no channels"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_it_serves_nothing_else(case: str) -> None:
    body, reason = OTHERS[case]
    found = why_not(FIRST_LAYER, describe(body))
    assert found is not None
    assert reason in found


@pytest.mark.parametrize("cpu", [AVX2, AVX512])
@pytest.mark.parametrize("case", few_fast(IMAGES))
def test_sums_weights_and_inputs_fit_the_registers(case: str, cpu: Cpu) -> None:
    found = find_image_window(describe(IMAGES[case], cpu))
    assert isinstance(found, PaddedWindow)
    for chunks, columns in image_tiles(found.window, cpu):
        assert found.window.out_blocks % chunks == 0
        assert (chunks, columns) == (1, 1) or chunks * columns + chunks < cpu.registers


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (3, 2), (7, 2)])
def test_few_registers_hold_enough_sums_and_read_inputs_again(kernel: int, stride: int) -> None:
    pad = (kernel // 2,) * 4
    body = dense(
        3, (224, 224), 64, (kernel, kernel), strides=(stride, stride), padding=pad, blocks=(1, 8)
    )
    found = find_image_window(describe(body, AVX2))
    assert isinstance(found, PaddedWindow)
    chunks, columns = image_tiles(found.window, AVX2)[0]
    assert chunks * columns >= AVX2.sums_to_hide_latency
    # Sums, weights, an input, and what LLVM needs: one more and sums are spilled.
    assert chunks * columns + chunks + 2 < AVX2.registers


def test_tiles_that_registers_cannot_hold_are_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_image_window(describe(dense(1, (1, 30_000), 16, (1, 15), **ONE), AVX512))
    assert isinstance(found, PaddedWindow)
    judged = []

    def inputs_held(window: Window, columns: int) -> int:
        judged.append(columns)
        return 1

    monkeypatch.setattr(first_layer, "inputs_held", inputs_held)
    assert image_tiles(found.window, AVX512)
    assert max(judged) <= AVX512.registers


def test_patches_that_share_no_input_are_computed_several_at_once() -> None:
    body = dense(3, (224, 224), 768, (16, 16), strides=(16, 16), blocks=(1, 16))
    found = find_image_window(describe(body, AVX512))
    assert isinstance(found, PaddedWindow)
    chunks, columns = image_tiles(found.window, AVX512)[0]
    assert columns > 1
    assert 1 + chunks + chunks * columns < AVX512.registers


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON])
def test_results_in_planes_are_stored_in_few_runs(cpu: Cpu) -> None:
    size = (3, (112, 112), 64, (7, 7))
    lanes = min(cpu.lanes, 16)
    settings: Any = {"strides": (2, 2), "padding": (3, 3, 3, 3), "blocks": (1, lanes)}
    planes = dense(
        *size, post=lambda y: relay.layout_transform(y, f"NCHW{lanes}c", "NCHW"), **settings
    )

    def pixels_a_run(body: relay.Expr) -> float:
        columns = knobs_of(FIRST_LAYER, describe(body, cpu))["tile_columns"].default
        return columns / len(runs_of_pixels(columns, lanes))

    assert pixels_a_run(planes) >= max(pixels_a_run(dense(*size, **settings)), 4)


@pytest.mark.parametrize("cpu", [AVX2, AVX512, NEON])
def test_weights_of_patches_meet_as_many_columns_as_their_way_takes(cpu: Cpu) -> None:
    body = dense(3, (224, 224), 768, (16, 16), strides=(16, 16), blocks=(1, 8))
    found = find_image_window(describe(body, cpu))
    assert isinstance(found, PaddedWindow)
    chunks, columns = image_tiles(found.window, cpu)[0]
    slice_bytes = chunks * 8 * 3 * 16 * 16 * 4
    assert slice_bytes > cpu.l1_bytes
    assert columns > COLUMNS_TO_STREAM
    assert chunks > 1
