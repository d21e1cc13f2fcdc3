"""A product in register tiles: what is left of a block once its product stands alone."""

from __future__ import annotations

import math
from typing import Any

from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import AVX2, describe, unscheduled
from tests.schedules.matrix_blocks import packed_dense
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.dot import DOT
from tvm_fusionx.schedules.dot_tiles import IsolatedDot, isolate, schedule_of
from tvm_fusionx.schedules.inline import inline_spatial

AVX2_OF_TWO = "llvm -mcpu=znver3 -num-cores=2"


def _sums(func: Any) -> list[tuple[int, ...]]:
    """Return the loops around each stage that adds to sums, by their extents."""
    found: list[tuple[int, ...]] = []
    around: list[Any] = []

    def enter(node: Any) -> None:
        if isinstance(node, tir.For):
            around.append(node)
        elif any(it.iter_type == tir.IterVar.CommReduce for it in node.iter_vars):
            found.append(tuple(int(loop.extent) for loop in around))

    def leave(node: Any) -> None:
        if isinstance(node, tir.For):
            around.pop()

    tir.stmt_functor.ir_transform(func.body, enter, leave, ["tir.For", "tir.Block"])
    return found


def test_parts_of_sums_are_added_before_the_next_part_begins() -> None:
    body, target = packed_dense(16, 64, 512), resolve_target(AVX2_OF_TWO)
    made = schedule(unscheduled(body, target), target, {"sum_parts": 2}, "dot")
    products, sums = _sums(made.func)
    # Two groups of panels, and within each all panels of a part before the next part.
    assert products[:4] == sums[:4] == (2, 2, 2, 4)
    assert (math.prod(products), math.prod(sums)) == (16 * 64 * 512, 16 * 64 * 2)
    (whole,) = _sums(schedule(unscheduled(body, target), target, {"sum_parts": 1}, "dot").func)
    assert math.prod(whole) == 16 * 64 * 512


def _isolated(body: relay.Expr) -> IsolatedDot:
    info = describe(body, AVX2)
    sch = schedule_of(info.func)
    values = {name: knob.default for name, knob in DOT.knobs(info, AVX2).items()}
    return isolate(inline_spatial(sch, info).func, info, values, 0)


def test_what_finishes_the_product_becomes_part_of_the_writing_stage() -> None:
    heads = relay.transpose(relay.reshape(packed_dense(8, 32, 4), (8, 4, 8)), (1, 0, 2))
    block = _isolated(heads)
    assert set(block.info.stages) == {block.reduce, block.write}
    assert not block.needs_pack


def test_tiles_that_do_not_divide_are_widened() -> None:
    block = _isolated(packed_dense(13, 32, 4))
    assert block.plan.m % block.plan.rows == 0
    assert block.plan.m >= 13


def test_columns_that_are_not_contiguous_are_packed() -> None:
    assert _isolated(relay.nn.dense(var("x", 8, 6), var("w", 32, 6))).needs_pack
