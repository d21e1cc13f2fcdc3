"""The loops of a product on tiles: any cut of it has the same numbers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sampled import few_fast_rows
from tests.schedules.blocked_blocks import unscheduled
from tests.schedules.byte_blocks import (
    dense_of_bytes,
    needs_tiles,
    scaled_numbers,
    window_of_bytes,
)
from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules import resolve_target, schedule

PRODUCT = dense_of_bytes(45, 96, 128)
WINDOW = window_of_bytes(64, (9, 11), 64, 3)


@needs_tiles
@pytest.mark.parametrize(
    ("block", "knobs"),
    few_fast_rows(
        [
            (PRODUCT, {"task_columns": 32, "channel_tasks": 3}),
            (WINDOW, {"task_rows": 1}),
            (WINDOW, {"task_rows": 9, "channel_tasks": 2}),
        ],
        1,
    ),
)
def test_tasks(block: tuple[Any, ...], knobs: dict[str, int]) -> None:
    body, inputs, sums = block
    target = resolve_target("llvm -mcpu=native -num-cores=2")
    made = schedule(unscheduled(body, target), target, knobs)
    assert (made.template, made.fallback_reason) == ("byte_tiles", None)
    assert knobs.items() <= made.knobs.items()
    assert_kernel(made.func, target, inputs, [scaled_numbers(sums)], 0.0)
