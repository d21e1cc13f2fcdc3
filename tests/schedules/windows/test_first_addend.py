"""Sums that begin with a bias: where they may, and the numbers are right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, te

from tests.depthwise_pairs import pair
from tests.relay_modules import module, var
from tests.sampled import few_fast
from tests.schedules.blocked_blocks import (
    NEON,
    assert_computes,
    dense,
    describe,
    eight_lanes,
    hard_swish,
    unscheduled,
)
from tests.schedules.matching import matched
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules.parts.hand_written_kernel import gather_what_follows, stage_nests
from tvm_fusionx.schedules.template import Template
from tvm_fusionx.schedules.windows.depthwise_pointwise import DEPTHWISE_POINTWISE
from tvm_fusionx.schedules.windows.first_addend import begin_with_addend, take_first_addend
from tvm_fusionx.schedules.windows.first_layer import FIRST_LAYER
from tvm_fusionx.schedules.windows.pointwise import POINTWISE
from tvm_fusionx.tir.block import describe_block
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.indices import simplify_indices

ONE = (1, 1)
SIZE = (5, 7)

BLOCKS: dict[str, tuple[Template, relay.Expr]] = {
    "pointwise": (POINTWISE, dense(16, SIZE, 24, ONE, batch=2, post=hard_swish)),
    "behind a depthwise window": (DEPTHWISE_POINTWISE, pair(16, SIZE, 16, after=hard_swish)),
    "first layer": (
        FIRST_LAYER,
        dense(3, SIZE, 16, (3, 3), padding=(1,) * 4, blocks=(1, 8), post=relay.nn.relu),
    ),
    "sums kept between blocks of channels": (POINTWISE, dense(1024, (2, 3), 16, ONE)),
}


@pytest.mark.parametrize("case", few_fast(BLOCKS, 1))
def test_a_kernel_that_begins_with_a_bias_is_right(case: str) -> None:
    template, body = BLOCKS[case]
    target = eight_lanes()
    plain = describe_cpu(target)
    scripts = []
    for cpu in (plain, replace(plain, begins_with_bias=True)):
        match = matched(template, describe_block(unscheduled(body, target), cpu))
        func = match.emit({name: knob.default for name, knob in match.knobs().items()})
        scripts.append(func.script())
    assert scripts[0] != scripts[1]
    assert_computes(func, target, module(body))


@pytest.mark.parametrize(
    ("body", "is_taken"),
    [
        (dense(8, SIZE, 16, ONE), True),
        (dense(8, SIZE, 16, ONE, post=lambda y: y + var("r", 1, 2, *SIZE, 8)), True),
        # Each use of the sums has the bias: it is taken from all.
        (dense(8, SIZE, 16, ONE, post=hard_swish), True),
        (relay.nn.relu(_bare := relay.nn.contrib_conv2d_nchwc(
            var("x", 1, 1, *SIZE, 8), var("w", 2, 1, 1, 1, 8, 8), (1, 1), (0, 0, 0, 0),
            (1, 1), 1, 16, ONE, "NCHW8c", "OIHW8i8o", "NCHW8c",
        )), False),
        # Of each pixel, not of each channel.
        (_bare + var("r", 1, 2, *SIZE, 8), False),
        # One use of the sums lacks it.
        (_bare * (_bare + var("b", 1, 2, 1, 1, 8)), False),
    ],
)  # fmt: skip
def test_what_may_be_taken(body: relay.Expr, is_taken: bool) -> None:
    info = describe(body, NEON)
    sch = fresh_schedule(info.func)
    (name,) = (stage.name for stage in info.reductions)
    write = gather_what_follows(sch, info, name, info.outputs[0])
    blocks = stage_nests(simplify_indices(sch.mod["main"]))
    sums = {region.buffer.data for region in blocks[name].writes}
    block, addend = take_first_addend(blocks[write], sums)
    assert (addend is not None) is is_taken
    assert block.body.same_as(blocks[write].body) is not is_taken


def _sums_of_integers(sign: str) -> Any:
    """Return sums of three integers for each channel, with what follows them, unscheduled."""
    x = te.placeholder((1, 2, 3, 5, 4, 3), "int32", name="x")
    less = te.placeholder((1, 2, 1, 1, 4), "int32", name="less")
    term = te.reduce_axis((0, 3), "term")
    sums = te.compute((1, 2, 3, 5, 4), lambda *i: te.sum(x[(*i, term)], axis=term), name="sums")

    def after(n: Any, c: Any, h: Any, w: Any, lane: Any) -> Any:
        number = less[n, c, 0, 0, lane]
        total = sums[n, c, h, w, lane]
        total = {"-": total - number, "+": total + number, "pixels": total - h}[sign]
        return total.astype("float32") * 0.5

    result = te.compute((1, 2, 3, 5, 4), after, name="after")
    return te.create_prim_func([x, less, result])


@pytest.mark.parametrize("sign", ["-", "+", "pixels"])
def test_integers_begin_with_what_is_subtracted(sign: str) -> None:
    func = _sums_of_integers(sign)
    begun = begin_with_addend(func, "sums", "after")
    assert tvm.ir.structural_equal(begun, func) == (sign != "-")
    generator = np.random.default_rng(0)
    x = generator.integers(-99, 99, (1, 2, 3, 5, 4, 3)).astype("int32")
    less = generator.integers(-99, 99, (1, 2, 1, 1, 4)).astype("int32")
    found = []
    for each in (func, begun):
        result = tvm.nd.array(np.zeros((1, 2, 3, 5, 4), "float32"))
        tvm.build(each, "llvm")(tvm.nd.array(x), tvm.nd.array(less), result)
        found.append(result.numpy())
    np.testing.assert_array_equal(*found)
