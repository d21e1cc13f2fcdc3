"""Indices of a block, simplified under the domains of its variables."""

from __future__ import annotations

from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx.tir.block import collect_blocks
from tvm_fusionx.tir.indices import simplify_indices


def test_a_reshape_of_leading_axes_has_no_division() -> None:
    func = unscheduled(relay.reshape(var("x", 4, 6), (1, 4, 6)))
    loads: list[tir.BufferLoad] = []
    tir.stmt_functor.ir_transform(func.body, loads.append, None, ["tir.BufferLoad"])
    divisions = [index for load in loads for index in load.indices if "//" in str(index)]
    assert not divisions


def test_every_block_variable_has_a_loop() -> None:
    func = unscheduled(relay.sum(var("x", 4, 6)))
    sch = tir.Schedule(func)
    for block in collect_blocks(func):
        assert len(sch.get_loops(sch.get_block(block.name_hint))) == len(block.iter_vars)


def test_simplifying_twice_changes_nothing() -> None:
    func = unscheduled(relay.nn.softmax(var("x", 4, 6)))
    assert simplify_indices(func).script() == func.script()
