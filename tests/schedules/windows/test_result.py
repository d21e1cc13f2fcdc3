"""Sums are stored along channels or along pixels: when, and every number in its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import EXACT, REASSOCIATING, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import AVX2, assert_scheduled, cut_to, dense, describe
from tests.schedules.blocked_blocks import eight_lanes as eight_lanes_target
from tests.schedules.frame_blocks import planes
from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules.parts.hand_written_kernel import stage_nests
from tvm_fusionx.schedules.parts.vector_sums import VectorSums
from tvm_fusionx.schedules.parts.vectors import ramp
from tvm_fusionx.schedules.windows.isolate import isolate_window
from tvm_fusionx.schedules.windows.output_vectors import OutputVectors
from tvm_fusionx.schedules.windows.result import WindowResult
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.tir.indices import simplify_indices

ONE = (1, 1)


def result_of(body: relay.Expr) -> WindowResult:
    """Return how the only window of a block is stored."""
    info = describe(body)
    window = find_window(info)
    assert isinstance(window, Window)
    module = tvm.IRModule({"main": info.func})
    sch = tir.Schedule(module, debug_mask="none", error_render_level="none")
    stages = isolate_window(sch, info, window)
    blocks = stage_nests(simplify_indices(sch.mod["main"]))
    sums = {region.buffer.data for region in blocks[stages.reduce].writes}
    return WindowResult.of(
        blocks[stages.write], window.columns, OutputVectors.of(window, AVX2), sums
    )


def frames(y: relay.Expr) -> relay.Expr:
    return relay.reshape(planes(y), (1, 16, 2, 3, 7))


ALONG_PIXELS = {
    "planes": planes,
    "activated planes": lambda y: relay.nn.relu(planes(y)),
    "planes of frames": frames,
    "a residual of planes": lambda y: planes(y) + var("r", 1, 16, 6, 7),
    "planes without the last channels": lambda y: cut_to(13, y),
    "a gate of planes": lambda y: planes(y) * var("g", 1, 16, 1, 1),
}
ALONG_CHANNELS = {
    "chunks": lambda y: y,
    "channels last": lambda y: relay.transpose(planes(y), (0, 2, 3, 1)),
    "columns first": lambda y: relay.transpose(planes(y), (0, 1, 3, 2)),
    "a residual of columns first": lambda y: (
        planes(y) + relay.transpose(var("r", 1, 16, 7, 6), (0, 1, 3, 2))
    ),
}


@pytest.mark.parametrize("case", ALONG_PIXELS)
def test_planes_are_written_along_pixels(case: str) -> None:
    assert result_of(dense(16, (6, 7), 16, ONE, post=ALONG_PIXELS[case])).along_pixels


@pytest.mark.parametrize("case", ALONG_CHANNELS)
def test_what_no_pixels_lie_side_by_side_in_is_written_along_channels(case: str) -> None:
    assert not result_of(dense(16, (6, 7), 16, ONE, post=ALONG_CHANNELS[case])).along_pixels


def test_chunks_of_twelve_channels_are_not_turned() -> None:
    body = dense(12, (6, 7), 24, ONE, blocks=(12, 12))
    left = relay.layout_transform(body, "NCHW12c", "NCHW")
    assert not result_of(left).along_pixels


# One pixel; whole powers of two; one left over, which goes with the one before; more than lanes.
@pytest.mark.parametrize("pixels", [1, 2, 3, 5, 6, 7, 9, 13])
@pytest.mark.parametrize("along_pixels", [True, False])
@pytest.mark.parametrize("joined", [1, 2])
def test_every_number_is_in_its_place(pixels: int, along_pixels: bool, joined: int) -> None:
    chunks, chunk_lanes = 3, 4 // joined
    vectors = OutputVectors(chunks, chunk_lanes, joined)
    channels = chunks * chunk_lanes
    given = tir.decl_buffer((pixels, channels), "float32", "given")
    found = tir.decl_buffer((1, channels, 1, pixels), "float32", "found")

    def write(*place_and_value: Any) -> Any:
        image, chunk, row, column, lane, value = place_and_value
        at = [image, chunk * chunk_lanes + lane, row, column]
        return tir.BufferStore(found, value * tir.const(2, "float32"), at)

    result = WindowResult(write, vectors, along_pixels)
    ib = tir.ir_builder.create()
    for vector in range(vectors.number):
        sums = VectorSums(ib, pixels, vectors.lanes, "float32")
        first = vectors.first_chunk(vector) * chunk_lanes
        for pixel in range(pixels):
            sums.put(pixel, tir.BufferLoad(given, [pixel, ramp(first, vectors.lanes)]))
        result.store(sums, range(pixels), 0, vectors.first_chunk(vector), lambda pixel: (0, pixel))
    data = np.random.default_rng(0).standard_normal((pixels, channels), dtype="float32")
    expected = 2 * data.T.reshape(1, channels, 1, pixels)
    assert_kernel(tir.PrimFunc([given, found], ib.get()), "llvm", [data], [expected], EXACT)


BLOCKS = {
    "pointwise": dense(24, (6, 7), 40, ONE, post=lambda y: relay.sigmoid(planes(y))),
    "first_layer": dense(
        3,
        (11, 13),
        16,
        (3, 3),
        strides=(2, 2),
        padding=(1,) * 4,
        blocks=(1, 8),
        post=lambda y: relay.nn.relu(planes(y)),
    ),
}


@pytest.mark.parametrize("template", few_fast(BLOCKS, 2))
def test_templates_write_planes(template: str) -> None:
    assert_scheduled(BLOCKS[template], template, REASSOCIATING, target=eight_lanes_target())
