"""Minimal filtering: the template serves it, and it is the direct convolution."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from tvm import relay

from tests.relay_modules import TARGET, assert_close, inputs_of, module, run_plain, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import as_block, cut_to, describe, hard_swish
from tests.schedules.matching import why_not
from tests.schedules.winograd_convolution import (
    WINOGRAD_TOLERANCE,
    Shape,
    direct,
    filtered,
    frames_beside,
)
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.winograd.template import WINOGRAD

CASES: dict[str, tuple[Shape, int, Shape, int]] = {
    "whole tiles": ((1, 16, 8, 8), 16, (1, 1, 1, 1), 4),
    "parts of tiles, two images": ((2, 8, 7, 10), 24, (1, 1, 1, 1), 4),
    "padding differs": ((1, 8, 9, 6), 8, (0, 2, 1, 0), 4),
    "no padding": ((1, 32, 11, 13), 40, (0, 0, 0, 0), 4),
    "more padding than window": ((1, 8, 5, 5), 48, (3, 3, 3, 3), 4),
    "a single pixel": ((1, 8, 1, 1), 8, (1, 1, 1, 1), 4),
    "one row ends in the border": ((1, 32, 13, 12), 32, (1, 1, 1, 1), 4),
    "small tiles": ((1, 48, 7, 9), 32, (1, 1, 1, 1), 2),
}


def _check(made: Any, expected: Any) -> None:
    mod = as_block(made)
    inputs = inputs_of(mod)
    target = resolve_target(TARGET)
    with lowering(target) as log:
        library = relay.build(mod, target)
    assert [(each.template, each.fallback_reason) for each in log.entries] == [("winograd", None)]
    assert_close(run_once(library, inputs), run_plain(module(expected), inputs), WINOGRAD_TOLERANCE)


@pytest.mark.parametrize("case", few_fast(CASES, 1))
def test_it_is_the_direct_convolution(case: str) -> None:
    shape, outputs, padding, tile = CASES[case]
    made = filtered(shape, outputs, padding, tile)
    _check(hard_swish(made), hard_swish(direct(shape, outputs, padding)))


@pytest.mark.parametrize("case", few_fast(["small tiles", "no padding"], 1))
def test_the_kernel_may_transform_the_weights(case: str) -> None:
    shape, outputs, padding, tile = CASES[case]
    made = filtered(shape, outputs, padding, tile, transforms_weights=True)
    _check(hard_swish(made), hard_swish(direct(shape, outputs, padding)))


def _residual(y: Any) -> Any:
    bias, other = var("b", 1, 2, 1, 1, 8), var("r", 1, 2, 8, 6, 8)
    return relay.nn.relu(relay.add(relay.add(y, bias), other))


def _unblocked(y: Any) -> Any:
    return relay.nn.relu(relay.layout_transform(y, "NCHW8c", "NCHW"))


def _enlarged(y: Any) -> Any:
    return relay.nn.relu(relay.nn.pad(y, ((0, 0), (0, 0), (1, 1), (2, 0), (0, 0))))


@pytest.mark.slow
@pytest.mark.parametrize(
    "after", few_fast([_residual, _unblocked, _enlarged, functools.partial(cut_to, 13)], 1)
)
def test_what_follows_is_applied(after: Any) -> None:
    case = ((1, 8, 8, 6), 16, (1, 1, 1, 1))
    _check(after(filtered(*case)), after(direct(*case)))


def _pooled(kind: str, window: tuple[int, int]) -> Any:
    def pool(y: Any) -> Any:
        return getattr(relay.nn, f"{kind}_pool2d")(y, window, window, layout="NCHW8c")

    return pool


POOLS = {
    "maximum": ((1, 16, 8, 8), 16, _pooled("max", (2, 2)), 4),
    "average, a row and a column are left over": ((2, 8, 5, 7), 8, _pooled("avg", (2, 2)), 4),
    "parts of tiles": ((1, 8, 14, 6), 24, _pooled("max", (2, 2)), 4),
    "two rows": ((1, 8, 6, 7), 8, _pooled("max", (2, 1)), 4),
    "a tile is a window": ((1, 8, 8, 9), 8, _pooled("max", (4, 4)), 4),
    "small tiles": ((1, 16, 7, 6), 8, _pooled("avg", (2, 2)), 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", few_fast(POOLS, 1))
def test_a_pool_reads_its_windows_from_the_tiles(case: str) -> None:
    shape, outputs, pool, tile = POOLS[case]
    chunks, height, width = outputs // 8, *shape[2:]

    def around(y: Any) -> Any:
        bias = var("b", 1, chunks, 1, 1, 8)
        other = var("r", shape[0], chunks, height, width, 8)
        return relay.nn.relu(pool(relay.add(relay.add(y, bias), other)))

    padding = (1, 1, 1, 1)
    _check(around(filtered(shape, outputs, padding, tile)), around(direct(shape, outputs, padding)))
    _check(pool(filtered(shape, outputs, padding, tile)), pool(direct(shape, outputs, padding)))


@pytest.mark.slow
@pytest.mark.parametrize("frames", few_fast([3, 1], 1))
def test_frames_are_read_where_they_are(frames: int) -> None:
    data = frames_beside(var("x", frames, 2, 9, 8, 8), frames)
    case = ((frames, 48, 9, 8), 16, (1, 1, 1, 1))
    pool = _pooled("max", (2, 2))
    made, expected = filtered(*case, data=data), direct(*case, data=data)
    _check(relay.nn.relu(pool(made)), relay.nn.relu(pool(expected)))


def test_it_serves_nothing_else() -> None:
    pooled = relay.nn.max_pool2d(var("x", 1, 2, 6, 6, 8), (2, 2), (2, 2), layout="NCHW8c")
    assert why_not(WINOGRAD, describe(pooled)) == "it is no minimal filtering"


def test_two_results_are_refused() -> None:
    made = filtered((1, 8, 6, 6), 8, (1, 1, 1, 1))
    both = relay.Tuple([relay.nn.relu(made), relay.negative(made)])
    assert why_not(WINOGRAD, describe(both)) == "it writes 2 tensors, not one"
