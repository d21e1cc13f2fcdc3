"""A product in register tiles: what is left of a block once its product stands alone."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tvm import relay, tir

from tests.relay_modules import REASSOCIATING, var
from tests.schedules.blocked_blocks import AVX2, assert_scheduled, describe, unscheduled
from tests.schedules.blocked_blocks import eight_lanes as eight_lanes_target
from tests.schedules.matching import knobs_of
from tests.schedules.matrix_blocks import packed_dense
from tvm_fusionx.schedules import resolve_target, schedule
from tvm_fusionx.schedules.products.dot import DOT
from tvm_fusionx.schedules.products.tiles import IsolatedDot, isolate
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.inline import inline_spatial

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
    sch = fresh_schedule(info.func)
    values = {name: knob.default for name, knob in knobs_of(DOT, info).items()}
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


def _heads(number: int, width: int) -> relay.Expr:
    """Return the rows of a product taken apart into heads, each a matrix of its own."""
    product = packed_dense(8, number * width, 4)
    return relay.transpose(relay.reshape(product, (8, number, width)), (1, 0, 2))


@pytest.mark.parametrize(("number", "width"), [(16, 15), (8, 6), (4, 12)])
def test_heads_that_no_vectors_fill_are_moved_apart(number: int, width: int) -> None:
    block = _isolated(_heads(number, width))
    assert block.info.consumers[block.write] != ()
    assert_scheduled(_heads(number, width), "dot", REASSOCIATING, target=eight_lanes_target())


@pytest.mark.parametrize(("number", "width"), [(4, 16), (2, 24), (16, 3), (1, 48)])
def test_other_heads_become_part_of_the_writing_stage(number: int, width: int) -> None:
    block = _isolated(_heads(number, width))
    assert block.info.consumers[block.write] == ()
