"""Channels that threads share: each is taken once."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.shares import shares


@pytest.mark.parametrize(
    ("total", "cores", "together", "tasks", "share"),
    [(1, 1, 1, 1, 1), (23, 1, 4, 1, 24), (3, 2, 1, 3, 1), (23, 2, 1, 8, 3), (151, 2, 4, 8, 20)],
)
def test_tasks_take_all_channels_in_shares(
    total: int, cores: int, together: int, tasks: int, share: int
) -> None:
    ib = tir.ir_builder.create()
    with shares(ib, total, cores, together) as (first, number):
        ib.emit(tir.Evaluate(first))
    loop = ib.get()
    assert loop.extent == tasks
    assert loop.kind == (tir.ForKind.PARALLEL if cores > 1 else tir.ForKind.SERIAL)

    def at(value: Any, task: int) -> int:
        known = tir.stmt_functor.substitute(value + tir.const(0), {loop.loop_var: tir.const(task)})
        return int(tvm.arith.Analyzer().simplify(known))

    taken = [(at(first, task), at(number, task)) for task in range(tasks)]
    assert [start for start, _ in taken] == [task * share for task in range(tasks)]
    assert taken[-1][1] == total - taken[-1][0]
    assert all(count == share for _, count in taken[:-1])
