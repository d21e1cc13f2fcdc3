"""Where few channels of a result lie: which vectors hold whole pieces of it."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import dense, describe
from tvm_fusionx.schedules.parts.hand_written_kernel import stage_nests
from tvm_fusionx.schedules.windows.isolate import isolate_window
from tvm_fusionx.schedules.windows.pointwise_few_outputs_places import Places, find_places
from tvm_fusionx.schedules.windows.structure import Window, find_window
from tvm_fusionx.tir.flat_access import decided
from tvm_fusionx.tir.indices import simplify_indices

ONE = (1, 1)
LANES = 8
ROWS, COLUMNS = 6, 9


def places_of(body: relay.Expr, most: int = LANES) -> Places | None:
    """Return how the result of a block's only window lies."""
    info = describe(body)
    window = find_window(info)
    assert isinstance(window, Window)
    module = tvm.IRModule({"main": info.func})
    sch = tir.Schedule(module, debug_mask="none", error_render_level="none")
    stages = isolate_window(sch, info, window)
    blocks = stage_nests(simplify_indices(sch.mod["main"]))
    sums = {region.buffer.data for region in blocks[stages.reduce].writes}
    return find_places(decided(blocks[stages.write]), window, LANES, most, sums)


def few(post: Any, outputs: int = 4, size: tuple[int, int] = (ROWS, COLUMNS)) -> relay.Expr:
    """Return a convolution of `size` to few channels, followed by `post`."""
    return dense(16, size, outputs, ONE, blocks=(8, outputs), post=post)


def chunks_to_planes(y: relay.Expr, outputs: int = 4) -> relay.Expr:
    return relay.layout_transform(y, f"NCHW{outputs}c", "NCHW")


def sub_pixels(y: relay.Expr, outputs: int = 4, size: tuple[int, int] = (ROWS, COLUMNS)) -> Any:
    """Put 2 x 2 of the channels in place as pixels."""
    rows, columns = size
    kept = outputs // 4
    apart = relay.reshape(y, (1, rows, columns, kept, 2, 2))
    placed = relay.transpose(apart, (0, 3, 1, 4, 2, 5))
    return relay.reshape(placed, (1, kept, 2 * rows, 2 * columns))


ALL_PIXELS = Places(LANES, 1, 1, ROWS * COLUMNS, COLUMNS)
WHOLE = {
    "planes": (few(chunks_to_planes), ALL_PIXELS),
    "planes with a residual": (
        few(lambda y: chunks_to_planes(y) + var("r", 1, 4, ROWS, COLUMNS)),
        ALL_PIXELS,
    ),
    "planes of three channels": (
        few(functools.partial(chunks_to_planes, outputs=3), 3),
        ALL_PIXELS,
    ),
    "a chunk": (few(lambda y: y), Places(LANES, 4, 1, ROWS * COLUMNS, COLUMNS)),
    "channels last": (
        few(lambda y: relay.transpose(chunks_to_planes(y), (0, 2, 3, 1))),
        Places(LANES, 4, 1, ROWS * COLUMNS, COLUMNS),
    ),
    "sub-pixels": (few(sub_pixels), Places(LANES, 2, ROWS, COLUMNS, COLUMNS)),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_result_in_whole_vectors(case: str) -> None:
    body, expected = WHOLE[case]
    assert places_of(body) == expected


SCATTERED = {
    "columns first": few(lambda y: relay.transpose(chunks_to_planes(y), (0, 1, 3, 2))),
    "a residual of columns first": few(
        lambda y: chunks_to_planes(y) + relay.transpose(var("r", 1, 4, COLUMNS, ROWS), (0, 1, 3, 2))
    ),
    "cut": few(lambda y: relay.strided_slice(y, [0], [5], axes=[3])),
    "chosen by the column": few(
        lambda y: relay.nn.pad(
            relay.strided_slice(y, [0], [5], axes=[3]),
            ((0, 0), (0, 0), (0, 0), (0, COLUMNS - 5), (0, 0)),
        )
    ),
    "three channels last": few(lambda y: y, 3),
    "rows of sub-pixels shorter than a vector": few(
        functools.partial(sub_pixels, size=(ROWS, 3)), size=(ROWS, 3)
    ),
    "fewer pixels than a vector": few(chunks_to_planes, size=(1, 7)),
}


@pytest.mark.parametrize("case", SCATTERED)
def test_a_result_in_no_whole_vectors(case: str) -> None:
    assert places_of(SCATTERED[case]) is None


def test_a_vector_holds_no_more_channels_than_it_may() -> None:
    assert places_of(few(lambda y: y), most=2) is None
