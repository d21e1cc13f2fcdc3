"""Blocks around products of rounded data: right numbers, and refusals with a reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import REASSOCIATING, TARGET, var
from tests.sampled import few_fast_rows
from tests.schedules.blocked_blocks import AVX512, describe, unscheduled
from tests.schedules.matching import knobs_of, why_not
from tests.schedules.packed_blocks import KINDS, drawn, product, rounded
from tests.verified_kernels import assert_kernel
from tvm_fusionx.expressions.block_weights import rounded_dense
from tvm_fusionx.layout.block_weights import in_panels, in_word_panels
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.packed.bytes_template import PACKED_BYTES

LENGTH, ROWS, WIDTH = 64, 64, 16
ZEN4 = describe_cpu(resolve_target("llvm -mcpu=znver4"))


def _parts(kind: str, *, in_words: bool = True) -> tuple[Any, ...]:
    weight = drawn(kind, ROWS, LENGTH)
    levels, *shared = (in_panels(part, WIDTH) for part in weight.arrays)
    return (in_word_panels(weight.levels, WIDTH) if in_words else levels, *shared)


def _gated(y: Any) -> Any:
    return y * relay.sigmoid(y) + relay.const(np.float32(0.5))


@pytest.mark.parametrize(
    ("kind", "rows"), few_fast_rows([(kind, rows) for kind in KINDS for rows in (1, 5, 16)], 3)
)
def test_numbers_with_what_follows(kind: str, rows: int) -> None:
    target = resolve_target(TARGET)
    dot = describe_cpu(target).byte_dot
    has_dots = dot is not None and dot.name_for(WIDTH) is not None
    parts = _parts(kind, in_words=has_dots)
    func = unscheduled(product(rows, parts, LENGTH, _gated, rounded_dense))
    scheduled = schedule(func, target)
    # Others unpack weights as floats, and multiply the same rounded data.
    template = "packed_bytes" if has_dots else "packed"
    assert (scheduled.template, scheduled.fallback_reason) == (template, None)
    x = np.random.default_rng(1).standard_normal((rows, LENGTH)).astype("float32")
    y = rounded(x) @ drawn(kind, ROWS, LENGTH).floats().T
    expected = (y / (1 + np.exp(-y)) + 0.5).astype("float32")
    assert_kernel(scheduled.func, target, [x, *parts], [expected], REASSOCIATING)


def test_knobs() -> None:
    body = product(64, _parts("Q4_1"), LENGTH, operator=rounded_dense)
    knobs = knobs_of(PACKED_BYTES, describe(body, ZEN4))
    assert {name: knob.default for name, knob in knobs.items()} == {
        "task_panels": 2,
        "tile_rows": 6,
    }


def _softmax() -> relay.Expr:
    return product(1, _parts("Q4_1"), LENGTH, lambda y: relay.nn.softmax(y), rounded_dense)


def _computed() -> relay.Expr:
    levels, *shared = _parts("Q8_0")
    whole = var("levels", *levels.shape, dtype="int8") + var("more", 1, dtype="int8")
    scales = var("scales", *shared[0].shape, dtype="uint16")
    return rounded_dense(var("x", 1, LENGTH), [whole, scales])


@pytest.mark.parametrize(
    ("body", "cpu", "reason"),
    [
        (lambda: relay.exp(var("x", 4, 4)), ZEN4, "it has no product with packed weights"),
        (lambda: product(1, _parts("Q4_1"), LENGTH), ZEN4, "its data is not rounded"),
        (_softmax, ZEN4, "it reduces something besides"),
        (
            lambda: product(1, _parts("Q4_1", in_words=False), LENGTH, operator=rounded_dense),
            ZEN4,
            "its weights lie in no panels of words",
        ),
        (_computed, ZEN4, "its weights are computed in the block"),
        (
            lambda: product(1, _parts("Q4_1"), LENGTH, operator=rounded_dense),
            AVX512,
            "the processor multiplies no bytes for 16 sums at once",
        ),
    ],
    ids=["none", "floats", "softmax", "no words", "computed", "no instruction"],
)
def test_refusals(body: Any, cpu: Any, reason: str) -> None:
    assert why_not(PACKED_BYTES, describe(body(), cpu)) == reason
