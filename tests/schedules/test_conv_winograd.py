"""Minimal filtering: the template serves it, and it is the direct convolution."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.layout.winograd_convolution import direct, filtered
from tests.relay_modules import REASSOCIATING, assert_close, inputs_of, module, run_plain, var
from tests.schedules.blocked_blocks import AVX2, as_block, describe, hard_swish
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.conv_winograd import WINOGRAD

TARGET = "llvm -mcpu=native"
CASES = {
    "whole tiles": ((1, 16, 8, 8), 16, (1, 1, 1, 1)),
    "parts of tiles, two images": ((2, 8, 7, 10), 24, (1, 1, 1, 1)),
    "padding differs": ((1, 8, 9, 6), 8, (0, 2, 1, 0)),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_the_direct_convolution(case: str) -> None:
    shape, outputs, padding = CASES[case]
    mod = as_block(hard_swish(filtered(shape, outputs, padding)))
    inputs = inputs_of(mod)
    target = resolve_target(TARGET)
    with lowering(target) as log:
        library = relay.build(mod, target)
    assert [(entry.template, entry.fallback_reason) for entry in log.entries] == [
        ("winograd", None)
    ]
    expected = run_plain(module(hard_swish(direct(shape, outputs, padding))), inputs)
    # 4e-6 measured: the transforms' factors of 4 and 5 round less well than plain sums.
    assert_close(run_once(library, inputs), expected, REASSOCIATING)


def test_it_serves_nothing_else() -> None:
    pooled = relay.nn.max_pool2d(var("x", 1, 2, 6, 6, 8), (2, 2), (2, 2), layout="NCHW8c")
    assert WINOGRAD.why_not(describe(pooled)) == "it is no minimal filtering"


def test_every_knob_offers_its_default() -> None:
    info = describe(filtered((1, 8, 8, 8), 16, (1, 1, 1, 1)))
    for name, knob in WINOGRAD.knobs(info, AVX2).items():
        assert knob.default in knob.choices, name
