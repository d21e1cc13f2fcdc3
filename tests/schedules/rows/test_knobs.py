"""Knobs of blocks without a dot product: each changes kernels, and none changes numbers."""

from __future__ import annotations

import itertools

import pytest
import tvm
from tvm import relay, tir

from tests.relay_modules import module, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import AVX512, assert_computes, describe, unscheduled
from tests.schedules.matching import emitted, knobs_of
from tests.schedules.matrix_blocks import layer_norm
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules import schedule
from tvm_fusionx.schedules.default import DEFAULT
from tvm_fusionx.schedules.rows.knobs import (
    CHAINS_KNOB,
    EVERY_NEST,
    LANES_KNOB,
    NO_NEST,
    PARALLEL_WORK_KNOB,
    RECOMPUTE_KNOB,
    VECTORS_KNOB,
)
from tvm_fusionx.schedules.rows.template import ROWS
from tvm_fusionx.schedules.template import Template, UnschedulableError

# Sixteen lanes whatever the machine that tests; those it lacks are made of those it has.
TARGET = tvm.target.Target("llvm -mcpu=x86-64 -num-cores=2")

x = var("x", 13, 37)
BLOCKS = {
    "softmax": relay.nn.softmax(x),
    "softmax over channels": relay.nn.softmax(var("x", 2, 5, 64), axis=1),
    "layer norm": layer_norm(var("x", 5, 96), 96),
    "row function used for every element": x + relay.exp(var("y", 13, 1)),
    "elementwise": relay.nn.relu(var("x", 4, 48) + var("y", 48)),
    "argmax": relay.argmax(x, axis=1),
    "two results": relay.Tuple([relay.exp(x), relay.sum(x, axis=0)]),
    "means of channels": relay.nn.global_avg_pool2d(var("x", 2, 6, 3, 5, 16), layout="NCHW16c"),
    "reduced flattened": relay.reshape(layer_norm(var("x", 6, 48), 48), (288,)),
}
CHOICES = {
    LANES_KNOB: (4, 8, 16),
    VECTORS_KNOB: (1, 4),
    CHAINS_KNOB: (1, 16),
    RECOMPUTE_KNOB: (1,),
    PARALLEL_WORK_KNOB: (EVERY_NEST, NO_NEST),
}
CASES = {
    f"{template} {block} {name}={value}": (template, block, {name: value})
    for template, blocks, knobs in (
        ("rows", tuple(BLOCKS), tuple(CHOICES)),
        ("default", ("softmax", "elementwise", "argmax"), (LANES_KNOB, RECOMPUTE_KNOB)),
    )
    for block, name in itertools.product(blocks, knobs)
    for value in CHOICES[name]
}
TOGETHER = {
    f"rows {block}, all at once": (
        "rows",
        block,
        {LANES_KNOB: 8, VECTORS_KNOB: 4, RECOMPUTE_KNOB: 1, PARALLEL_WORK_KNOB: EVERY_NEST},
    )
    for block in BLOCKS
}


def _scheduled(block: str, template: str, knobs: dict[str, int]) -> tir.PrimFunc:
    made = schedule(unscheduled(BLOCKS[block], TARGET), TARGET, knobs, template)
    assert made.template == template, made.fallback_reason
    return made.func


@pytest.mark.parametrize("case", few_fast({**CASES, **TOGETHER}, 6))
def test_numbers_stay(case: str) -> None:
    template, block, knobs = {**CASES, **TOGETHER}[case]
    assert_computes(_scheduled(block, template, knobs), TARGET, module(BLOCKS[block]))


@pytest.mark.parametrize(
    ("name", "value", "template", "block"),
    [
        (LANES_KNOB, 8, "rows", "layer norm"),
        (LANES_KNOB, 16, "default", "elementwise"),
        (VECTORS_KNOB, 1, "rows", "softmax over channels"),
        (VECTORS_KNOB, 4, "rows", "softmax over channels"),
        (RECOMPUTE_KNOB, 1, "rows", "softmax"),
        (RECOMPUTE_KNOB, 1, "default", "row function used for every element"),
        (PARALLEL_WORK_KNOB, EVERY_NEST, "rows", "softmax"),
        (PARALLEL_WORK_KNOB, EVERY_NEST, "default", "elementwise"),
    ],
)
def test_each_knob_changes_a_kernel(name: str, value: int, template: str, block: str) -> None:
    usual = _scheduled(block, template, {})
    assert not tvm.ir.structural_equal(usual, _scheduled(block, template, {name: value}))


def test_recomputing_keeps_nothing_but_sums_and_maxima() -> None:
    kept = [_scheduled("softmax", "rows", {RECOMPUTE_KNOB: value}) for value in (0, 1)]
    assert ["T_softmax_exp = T.alloc_buffer" in str(func) for func in kept] == [True, False]


def test_large_blocks_may_stay_on_one_core() -> None:
    func = unscheduled(relay.nn.softmax(var("x", 64, 256)), TARGET)
    assert "T.parallel" in str(schedule(func, TARGET).func)
    alone = schedule(func, TARGET, {PARALLEL_WORK_KNOB: NO_NEST})
    assert "T.parallel" not in str(alone.func)


def test_knobs_are_offered_where_they_can_make_a_difference() -> None:
    sums = {VECTORS_KNOB, CHAINS_KNOB}
    everything = {LANES_KNOB, RECOMPUTE_KNOB, PARALLEL_WORK_KNOB} | sums
    softmax = describe(BLOCKS["softmax"], AVX512)
    assert set(knobs_of(ROWS, softmax)) == everything
    assert set(knobs_of(DEFAULT, softmax)) == everything - sums
    plain = describe(BLOCKS["elementwise"], AVX512)
    assert set(knobs_of(ROWS, plain)) == {LANES_KNOB, PARALLEL_WORK_KNOB}
    assert knobs_of(ROWS, plain)[LANES_KNOB].choices == (8, 16, 32, 64)
    alone = describe(BLOCKS["elementwise"], Cpu(lanes=4, registers=32, cores=1))
    assert set(knobs_of(ROWS, alone)) == {LANES_KNOB}
    assert knobs_of(ROWS, alone)[LANES_KNOB].choices == (4, 8, 16)


@pytest.mark.parametrize("template", [ROWS, DEFAULT])
@pytest.mark.parametrize("knob", [{LANES_KNOB: 3}, {LANES_KNOB: 0}, {PARALLEL_WORK_KNOB: -1}])
def test_values_that_no_loop_can_have_are_refused(template: Template, knob: dict[str, int]) -> None:
    info = describe(BLOCKS["softmax"], AVX512)
    values = {name: each.default for name, each in knobs_of(template, info).items()} | knob
    with pytest.raises(UnschedulableError, match=next(iter(knob))):
        emitted(template, info, values)
