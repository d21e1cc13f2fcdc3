"""The kernel of filters with zeros of their own: what its inner loops hold."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import tir

from tests.schedules.blocked_blocks import AVX512, NEON, describe
from tests.schedules.filter_blocks import filter_window, patterned, scattered
from tests.schedules.matching import matched
from tests.schedules.sparse_blocks import Window
from tvm_fusionx.processors.cpu import Cpu
from tvm_fusionx.schedules.sparse.filters import SPARSE_FILTERS

CASE = Window(1, 16, 16, 14, 14)


def _loops(cpu: Cpu, name: str, *, by_pattern: bool) -> list[Any]:
    weight = patterned(CASE, 0.5) if by_pattern else scattered(CASE, 0.2)
    body, _ = filter_window(CASE, weight, by_pattern=by_pattern)
    match = matched(SPARSE_FILTERS, describe(body, cpu))
    func = match.emit({name: knob.default for name, knob in match.knobs().items()})
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.For) and node.loop_var.name == name:
            found.append(node)

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found


def _loads(loop: Any, name: str) -> int:
    found: list[Any] = []

    def visit(node: Any) -> None:
        if isinstance(node, tir.BufferLoad) and node.buffer.name == name:
            found.append(node)

    tir.stmt_functor.post_order_visit(loop, visit)
    return len(found)


@pytest.mark.parametrize("cpu", [NEON, AVX512], ids=["NEON", "AVX512"])
def test_each_pattern_is_written_out(cpu: Cpu) -> None:
    loops = _loops(cpu, "kernel", by_pattern=True)
    assert len(loops) == 4
    for loop in loops:
        # One word tells where all taps of a kernel read.
        assert _loads(loop, "index") == 1
        assert _loads(loop, "values") == 4
        assert _loads(loop, "planes") % 4 == 0


def test_a_number_by_itself_is_one_word() -> None:
    (loop,) = _loops(NEON, "kernel", by_pattern=False)
    assert (_loads(loop, "index"), _loads(loop, "values")) == (1, 1)
