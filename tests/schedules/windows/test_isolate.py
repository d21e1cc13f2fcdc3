"""A block around a window becomes three stages: gather, reduce, write."""

from __future__ import annotations

import tvm
from tvm import relay, tir

from tests.schedules.blocked_blocks import dense, describe, hard_swish
from tvm_fusionx.schedules.windows.isolate import Isolated, isolate_window, weights_of
from tvm_fusionx.schedules.windows.structure import Window, find_window


def _isolate(body: relay.Expr) -> tuple[Isolated, list[str]]:
    info = describe(body)
    window = find_window(info)
    assert isinstance(window, Window)
    sch = tir.Schedule(tvm.IRModule({"main": info.func}), debug_mask="none")
    isolated = isolate_window(sch, info, window)
    blocks = sch.get_child_blocks(sch.get_block("root"))
    return isolated, [sch.get(block).name_hint for block in blocks]


def test_padding_is_gathered_and_the_rest_written_with_the_result() -> None:
    body = dense(8, (5, 7), 8, (3, 3), padding=(1, 1, 1, 1), post=hard_swish)
    isolated, blocks = _isolate(body)
    assert blocks == [isolated.gather, isolated.reduce, isolated.write]
    assert isolated.others == ()


def test_without_work_before_it_nothing_is_gathered() -> None:
    isolated, blocks = _isolate(dense(8, (5, 7), 8, (1, 1)))
    assert isolated.gather is None
    assert blocks == [isolated.reduce, isolated.write]


def test_a_layout_that_follows_is_written_in_the_window_s_axes() -> None:
    body = dense(8, (5, 7), 8, (1, 1), post=lambda y: relay.layout_transform(y, "NCHW8c", "NCHW"))
    isolated, _ = _isolate(body)
    assert isolated.others == ()


def test_what_cannot_be_written_so_stays_behind() -> None:
    body = dense(8, (5, 7), 8, (1, 1), post=lambda y: relay.repeat(y, 2, 3))
    isolated, blocks = _isolate(body)
    assert len(isolated.others) == 1
    assert blocks == [isolated.reduce, isolated.write, *isolated.others]


def test_weights_are_what_a_window_reads_besides_data_and_sums() -> None:
    info = describe(dense(8, (5, 7), 8, (1, 1)))
    window = find_window(info)
    assert isinstance(window, Window)
    weights = weights_of(window.stage.block, window.data)
    assert len(weights.shape) == 6
    assert weights.same_as(window.weights)
