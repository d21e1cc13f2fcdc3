"""Blocks around products with packed weights: right numbers, and refusals with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.sampled import few_fast_rows
from tests.schedules.blocked_blocks import AVX512, describe, unscheduled
from tests.schedules.matching import knobs_of, why_not
from tests.schedules.packed_blocks import KINDS, drawn, product
from tests.verified_kernels import assert_kernel
from tvm_fusionx.expressions.block_weights import dense
from tvm_fusionx.gguf.block_tensor import BlockTensor
from tvm_fusionx.layout.block_weights import in_panels
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.packed.template import PACKED

LENGTH, ROWS = 64, 64


def _gated(y: Any) -> Any:
    return y * relay.sigmoid(y) + relay.const(np.float32(0.5))


@pytest.mark.parametrize(
    ("kind", "rows"), few_fast_rows([(kind, rows) for kind in KINDS for rows in (1, 5, 16)], 3)
)
def test_numbers_with_what_follows(kind: str, rows: int) -> None:
    weight = drawn(kind, ROWS, LENGTH)
    parts = tuple(in_panels(part, 16) for part in weight.arrays)
    func = unscheduled(product(rows, parts, LENGTH, _gated))
    target = resolve_target(TARGET)
    scheduled = schedule(func, target)
    assert (scheduled.template, scheduled.fallback_reason) == ("packed", None)
    x = np.random.default_rng(1).standard_normal((rows, LENGTH)).astype("float32")
    y = x.astype("float64") @ weight.floats().T
    expected = (y / (1 + np.exp(-y)) * 1 + 0.5).astype("float32")
    assert_kernel(scheduled.func, target, [x, *parts], [expected], REASSOCIATING)


def test_scale_and_minimum_may_be_one_constant() -> None:
    weight = drawn("Q4_1", ROWS, LENGTH)
    levels, scales = (in_panels(part, 16) for part in weight.arrays[:2])
    shared = var("scales", *scales.shape, dtype="uint16")
    levels_var = var("levels", *levels.shape, dtype="uint8")
    func = unscheduled(dense(var("x", 1, LENGTH), [levels_var, shared, shared]))
    scheduled = schedule(func, resolve_target(TARGET))
    assert scheduled.template == "packed"
    x = np.random.default_rng(1).standard_normal((1, LENGTH)).astype("float32")
    numbers = BlockTensor(weight.levels, weight.scales, weight.scales).floats()
    expected = (x.astype("float64") @ numbers.T).astype("float32")
    assert_kernel(
        scheduled.func, resolve_target(TARGET), [x, levels, scales], [expected], REASSOCIATING
    )


def test_knobs() -> None:
    parts = tuple(in_panels(part, 16) for part in drawn("Q4_1", ROWS, LENGTH).arrays)
    knobs = knobs_of(PACKED, describe(product(5, parts, LENGTH), AVX512))
    assert {name: knob.default for name, knob in knobs.items()} == {
        "task_panels": 2,
        "tile_rows": 5,
    }


def _rows_apart() -> Any:
    return product(1, drawn("Q4_1", ROWS, LENGTH).arrays, LENGTH)


def _twice() -> Any:
    parts = tuple(in_panels(part, 16) for part in drawn("Q4_1", ROWS, LENGTH).arrays)
    return product(1, parts, LENGTH, lambda y: relay.nn.softmax(y))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (lambda: relay.exp(var("x", 4, 4)), "it has no product with packed weights"),
        (_rows_apart, "its weights lie in no panels"),
        (_twice, "it reduces something besides"),
    ],
    ids=["none", "rows apart", "softmax"],
)
def test_refusals(body: Any, reason: str) -> None:
    assert why_not(PACKED, describe(body(), AVX512)) == reason
