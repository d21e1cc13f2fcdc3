"""The hand-laid loops: every division of the work computes the same convolution."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    assert_same_with_knobs,
    assert_scheduled,
    dense,
    eight_lanes,
)
from tests.schedules.windows.test_pointwise_few_outputs import picture, planes
from tvm_fusionx.schedules.windows.pointwise_few_outputs_kernel import InputVectors

NAME = "pointwise_few_outputs"

# Tiles of parts of a vector, tasks that lie over each other, more tasks than vectors of pixels.
KNOBS: dict[str, tuple[Any, dict[str, int]]] = {
    f"{tile} pixels of planes, {tasks} tasks": (
        planes(64, (5, 13), 2, post=relay.nn.relu),
        {"tile_pixels": tile, "tasks": tasks},
    )
    for tile, tasks in ((1, 3), (2, 2), (4, 5), (8, 1))
}
KNOBS["pixels beside each other"] = (
    dense(32, (5, 7), 4, (1, 1), blocks=(4, 4), post=relay.nn.relu),
    {"tile_pixels": 2, "tasks": 4},
)
KNOBS |= {
    f"{tile} of a row of sub-pixels, {tasks} tasks": (
        dense(32, (5, 7), 4, (1, 1), blocks=(8, 4), post=picture((5, 7))),
        {"tile_pixels": tile, "tasks": tasks},
    )
    for tile, tasks in ((1, 4), (2, 3), (4, 2))
}
KNOBS |= {
    f"{tile} of chunks of two vectors, {tasks} tasks": (
        planes(64, (3, 7), 3, 16),
        {"tile_pixels": tile, "tasks": tasks},
    )
    for tile, tasks in ((1, 1), (4, 3))
}


@pytest.mark.parametrize("case", KNOBS)
def test_no_value_of_a_knob_changes_numbers(case: str) -> None:
    body, knobs = KNOBS[case]
    assert_same_with_knobs(body, NAME, knobs)


CHUNKS = {
    f"{outputs} planes of {size} from chunks of {inner}": planes(128, size, outputs, inner)
    for inner in (2, 4, 8, 16, 32)
    for outputs in (2, 3)
    for size in ((1, 16), (3, 11), (7, 7))
}


@pytest.mark.parametrize("case", few_fast(CHUNKS, 1))
def test_chunks_of_any_power_of_two(case: str) -> None:
    assert_scheduled(CHUNKS[case], NAME, REASSOCIATING)
    assert_scheduled(CHUNKS[case], NAME, REASSOCIATING, target=eight_lanes())


@pytest.mark.parametrize(
    ("lanes", "chunk", "expected"),
    [(16, 8, (2, 8, 1, 3)), (8, 8, (1, 8, 1, 3)), (4, 8, (1, 4, 2, 6)), (16, 1, (16, 1, 1, 3))],
)
def test_chunks_share_a_vector_or_are_several(
    lanes: int, chunk: int, expected: tuple[int, int, int, int]
) -> None:
    found = InputVectors(lanes, 3, chunk)
    assert (found.pixels, found.summed, found.parts, found.number) == expected
