"""Blocks around sparse products: right numbers, and refusals with a reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.schedules.blocked_blocks import AVX512, describe, unscheduled
from tests.schedules.matching import why_not
from tests.schedules.sparse_blocks import (
    Window,
    dense,
    dense_of_integers,
    integer_weight,
    integers_of,
    pruned,
    window,
)
from tests.verified_kernels import assert_kernel
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.integers import DotInstruction
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.sparse.template import SPARSE


def _gated(y: Any) -> Any:
    return y * relay.sigmoid(y) + relay.const(np.float32(0.5))


def _gated_by_numpy(y: Any) -> Any:
    return y / (1 + np.exp(-y)) + np.float32(0.5)


def _assert(body: Any, arrays: Any, expected: Any, knobs: Any = None) -> Any:
    resolved = resolve_target(TARGET)
    scheduled = schedule(unscheduled(body), resolved, knobs)
    assert (scheduled.template, scheduled.fallback_reason) == ("sparse", None)
    assert_kernel(scheduled.func, resolved, arrays, [expected], REASSOCIATING)
    return scheduled


@pytest.mark.parametrize(
    ("rows", "outputs", "width", "density"),
    [(1, 48, 16, 0.3), (5, 40, 16, 0.5), (23, 21, 16, 0.25), (16, 32, 32, 1.0), (3, 32, 8, 0.0)],
    ids=str,
)
def test_dense(rows: int, outputs: int, width: int, density: float) -> None:
    weight = pruned(outputs, 24, width, density)
    body, stored = dense(rows, weight, width, 8, _gated)
    x = np.random.default_rng(1).standard_normal((rows, 24)).astype("float32")
    expected = _gated_by_numpy(x.astype("float64") @ weight.T).astype("float32")
    _assert(body, [x, stored.values, stored.index], expected)


@pytest.mark.parametrize("outermost", [0, 1])
@pytest.mark.parametrize("is_window", [False, True])
def test_turned_tiles(outermost: int, is_window: bool) -> None:
    case = Window(2, 24, 16, 5, 3, kernel=1, padding=(0, 0, 0, 0))
    weight = pruned(16, 24, 8, 0.4)
    body, stored = window(case, weight, 16, 8) if is_window else dense(15, weight, 16, 8)
    x = case.image() if is_window else case.image().reshape(-1)[: 15 * 24].reshape(15, 24)
    expected = case.expected(x, weight) if is_window else x @ weight.T
    knobs = {"turned": 1, "tile_columns": 6, "group_outermost": outermost, "task_columns": 15}
    scheduled = _assert(body, [x, stored.values, stored.index], expected, knobs=knobs)
    assert scheduled.knobs | knobs == scheduled.knobs


@pytest.mark.parametrize(
    "case",
    [
        Window(1, 16, 24, 9, 7),
        Window(2, 16, 16, 8, 9, stride=2, padding=(0, 1, 1, 0)),
        Window(1, 8, 16, 9, 9, dilation=2, padding=(2, 2, 2, 2)),
        Window(2, 16, 24, 5, 6, kernel=1, padding=(0, 0, 0, 0)),
        Window(1, 16, 16, 6, 7, kernel=1, stride=2, padding=(0, 0, 0, 0)),
        Window(1, 8, 16, 4, 4, kernel=5, padding=(2, 2, 2, 2)),
        Window(2, 16, 16, 9, 21, padding=(1, 0, 1, 2)),
    ],
    ids=str,
)
def test_windows(case: Window) -> None:
    weight = pruned(case.outputs, case.columns, 8, 0.3)
    body, stored = window(case, weight, 16, 8, _gated)
    x = case.image()
    expected = _gated_by_numpy(case.expected(x, weight)).astype("float32")
    _assert(body, [x, stored.values, stored.index], expected)


@pytest.mark.parametrize("kernel", [1, 3])
def test_what_stands_before_is_computed_on_the_way(kernel: int) -> None:
    pad = (kernel // 2,) * 4
    case = Window(1, 16, 16, 6, 6, kernel=kernel, padding=pad)
    weight = pruned(16, case.columns, 8, 0.5)
    gate = var("gate", 1, 2, 1, 1, 8)
    x = var("x", 1, 2, 6, 6, 8)
    body, stored = window(case, weight, 8, 8, relay.nn.relu, data=x * gate)
    image = case.image()
    scale = np.random.default_rng(2).standard_normal((1, 2, 1, 1, 8)).astype("float32")
    expected = np.maximum(case.expected(image * scale, weight), 0)
    _assert(body, [image, scale, stored.values, stored.index], expected)


def test_frames_are_gathered_from_one_tensor() -> None:
    case = Window(3, 24, 16, 5, 6)
    weight = pruned(16, case.columns, 8, 0.4)
    clip = np.random.default_rng(3).standard_normal((3, 1, 5, 6, 8)).astype("float32")
    around = relay.nn.pad(var("x", *clip.shape), [(1, 1), *([(0, 0)] * 4)])
    frames = [
        relay.strided_slice(around, [first], [first + 3], axes=[0]) for first in range(case.images)
    ]
    body, stored = window(case, weight, 16, 8, data=relay.concatenate(frames, axis=1))
    padded = np.pad(clip, [(1, 1), *([(0, 0)] * 4)])
    image = np.concatenate([padded[first : first + 3] for first in range(3)], axis=1)
    _assert(body, [clip, stored.values, stored.index], case.expected(image, weight))


def test_a_result_in_planes_is_stored_by_pixels() -> None:
    case = Window(1, 16, 16, 8, 8)
    weight = pruned(16, case.columns, 8, 0.5)
    body, stored = window(
        case, weight, 16, 8, lambda y: relay.layout_transform(y, "NCHW8c", "NCHW")
    )
    x = case.image()
    expected = case.expected(x, weight).transpose(0, 1, 4, 2, 3).reshape(1, 16, 8, 8)
    _assert(body, [x, stored.values, stored.index], np.ascontiguousarray(expected))


def _dot() -> DotInstruction:
    dot = describe_cpu(resolve_target(TARGET)).dot
    if dot is None or dot.rows > 1 or dot.name_for(8) is None:
        pytest.skip("no instruction multiplies single rows of integers here")
    return dot


def _scaled(y: Any) -> Any:
    return relay.cast(y, "float32") * relay.const(np.float32(0.5))


@pytest.mark.parametrize("turned", [0, 1])
@pytest.mark.parametrize("rows", [1, 15])
def test_rows_of_integers(rows: int, turned: int) -> None:
    dot = _dot()
    weight = integer_weight(40, 16, dot, 0.4)
    body, stored = dense_of_integers(rows, weight, 16, 8, dot, _scaled)
    x = integers_of(dot, rows, 16 * dot.depth)
    expected = (x.astype("int64") @ weight.T.astype("int64")).astype("float32") / 2
    knobs = {"turned": turned, "tile_columns": min(rows, 6)}
    _assert(body, [x, stored.values, stored.index], expected, knobs=knobs)


@pytest.mark.parametrize(
    ("case", "before"),
    [
        (Window(1, 16, 24, 9, 7), False),
        (Window(2, 16, 16, 8, 9, stride=2, padding=(0, 1, 1, 0)), True),
        (Window(1, 16, 16, 5, 6, kernel=1, padding=(0, 0, 0, 0)), False),
        (Window(1, 16, 16, 5, 6, kernel=1, padding=(0, 0, 0, 0)), True),
    ],
    ids=str,
)
def test_windows_of_integers(case: Window, before: bool) -> None:
    dot = _dot()
    weight = integer_weight(case.outputs, case.columns // dot.depth, dot, 0.4)
    image = integers_of(dot, *case.image().shape)
    x: Any = var("x", *image.shape, dtype=dot.data)
    if before:
        # What the kernel gathers is computed on the way.
        x, image = relay.right_shift(x, relay.const(1, dot.data)), image >> 1
    body, stored = window(case, weight, 16, 8, _scaled, data=x)
    expected = case.expected(image, weight) / 2
    given = image << 1 if before else image
    _assert(body, [given, stored.values, stored.index], expected)


def test_no_instruction_refuses_integers() -> None:
    dot = DotInstruction("uint8", "int8", 4, ((8, "llvm.x86.avx512.vpdpbusd.256"),), True)
    weight = integer_weight(40, 16, dot, 0.4)
    body, _ = dense_of_integers(3, weight, 16, 8, dot, _scaled)
    told = "no instruction multiplies single rows of uint8 by int8"
    assert why_not(SPARSE, describe(body, AVX512)) == told
    in_words = replace(AVX512, dot=replace(dot, together=2))
    assert why_not(SPARSE, describe(body, in_words)) == told
    narrow = replace(AVX512, dot=replace(dot, by_lanes=((16, "llvm.x86.avx512.vpdpbusd.512"),)))
    assert why_not(SPARSE, describe(body, narrow)) == "no instruction sums vectors of 8"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda: relay.exp(var("x", 4, 4)), "it has no sparse product"),
        (
            lambda: relay.nn.softmax(dense(2, pruned(16, 8, 8, 0.5), 8, 8)[0]),
            "it reduces something besides",
        ),
    ],
    ids=["none", "softmax"],
)
def test_refusals(body: Any, reason: str) -> None:
    assert why_not(SPARSE, describe(body(), AVX512)) == reason
