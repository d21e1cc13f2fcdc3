"""A product in register tiles: what is left of a block once its product stands alone."""

from __future__ import annotations

from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import AVX2, describe
from tests.schedules.matrix_blocks import packed_dense
from tvm_fusionx.schedules.dot import DOT
from tvm_fusionx.schedules.dot_tiles import IsolatedDot, isolate, schedule_of
from tvm_fusionx.schedules.inline import inline_spatial


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
