"""Filters with zeros of their own: right numbers, and refusals with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.schedules.blocked_blocks import AVX512, describe, unscheduled
from tests.schedules.filter_blocks import filter_window, patterned, scattered
from tests.schedules.matching import why_not
from tests.schedules.sparse_blocks import Window
from tests.verified_kernels import assert_kernel
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.sparse.filters import SPARSE_FILTERS


def _gated(y: Any) -> Any:
    return y * relay.sigmoid(y) + relay.const(np.float32(0.5))


def _gated_by_numpy(y: Any) -> Any:
    return y / (1 + np.exp(-y)) + np.float32(0.5)


def _assert(body: Any, arrays: Any, expected: Any, knobs: Any = None) -> None:
    resolved = resolve_target(TARGET)
    scheduled = schedule(unscheduled(body), resolved, knobs)
    assert (scheduled.template, scheduled.fallback_reason) == ("sparse_filters", None)
    assert_kernel(scheduled.func, resolved, arrays, [expected], REASSOCIATING)


CASES = (
    (Window(1, 16, 24, 9, 7), None),
    (Window(2, 16, 16, 8, 9, stride=2, padding=(0, 1, 1, 0)), 3),
    (Window(1, 8, 16, 9, 9, dilation=2, padding=(2, 2, 2, 2)), 4),
    (Window(2, 16, 24, 5, 6, kernel=1, padding=(0, 0, 0, 0)), None),
    (Window(1, 16, 16, 6, 7, kernel=1, stride=2, padding=(0, 0, 0, 0)), 2),
    (Window(1, 8, 16, 4, 4, kernel=5, padding=(2, 2, 2, 2)), None),
    (Window(2, 16, 16, 9, 21, padding=(1, 0, 1, 2)), 5),
)


@pytest.mark.parametrize(("case", "rows"), CASES, ids=str)
def test_windows(case: Window, rows: int | None) -> None:
    weight = scattered(case, 0.2)
    body, stored = filter_window(case, weight, _gated, rows=rows)
    x = case.image()
    expected = _gated_by_numpy(case.expected(x, weight)).astype("float32")
    _assert(body, [x, stored.values, stored.index], expected)


@pytest.mark.parametrize("vectors", [1, 2, None])
@pytest.mark.parametrize("case", [CASES[0][0], CASES[1][0]], ids=str)
def test_patterns(case: Window, vectors: int | None) -> None:
    weight = patterned(case, 0.5)
    body, stored = filter_window(case, weight, by_pattern=True)
    assert stored.values.shape[1] == 4
    x = case.image()
    knobs = {} if vectors is None else {"vectors": vectors, "tile_outermost": 1, "parts": 1}
    _assert(body, [x, stored.values, stored.index], case.expected(x, weight), knobs)


def test_what_stands_before_is_computed_on_the_way() -> None:
    case = Window(1, 16, 16, 6, 6)
    weight = scattered(case, 0.3)
    gate, x = var("gate", 1, 2, 1, 1, 8), var("x", 1, 2, 6, 6, 8)
    body, stored = filter_window(case, weight, relay.nn.relu, data=x * gate)
    image = case.image()
    scale = np.random.default_rng(2).standard_normal((1, 2, 1, 1, 8)).astype("float32")
    expected = np.maximum(case.expected(image * scale, weight), 0)
    _assert(body, [image, scale, stored.values, stored.index], expected)


def test_a_result_in_planes() -> None:
    case = Window(1, 16, 16, 8, 8)
    weight = scattered(case, 0.3)
    body, stored = filter_window(
        case, weight, lambda y: relay.layout_transform(y, "NCHW8c", "NCHW")
    )
    x = case.image()
    expected = case.expected(x, weight).transpose(0, 1, 4, 2, 3).reshape(1, 16, 8, 8)
    _assert(body, [x, stored.values, stored.index], np.ascontiguousarray(expected))


def _two(y: Any) -> Any:
    return relay.Tuple([y, relay.nn.relu(y)])


REFUSED = {
    "none": (lambda: relay.exp(var("x", 4)), "it has no filters"),
    "sums": (
        lambda: filter_window(
            CASES[0][0], scattered(CASES[0][0], 0.3), lambda y: relay.sum(y, axis=1)
        )[0],
        "it reduces something besides",
    ),
    "two results": (
        lambda: filter_window(CASES[0][0], scattered(CASES[0][0], 0.3), _two)[0],
        "it writes 2 tensors",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    make, reason = REFUSED[name]
    assert why_not(SPARSE_FILTERS, describe(make(), AVX512)).startswith(reason)
