"""Tasks: each place and each channel is taken once, and last pieces move back."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.tasks import coordinates, shares, start_of, tasks


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


def _value(expr: Any, known: dict[Any, int] | None = None) -> int:
    given = {var: tir.const(value) for var, value in (known or {}).items()}
    expr = tir.stmt_functor.substitute(expr + tir.const(0), given)
    return int(tvm.arith.Analyzer().simplify(expr))


def test_a_task_has_a_place_along_each_axis() -> None:
    number = tir.Var("number", "int32")
    places = [
        tuple(_value(each, {number: at}) for each in coordinates(number, (2, 3, 1, 4)))
        for at in range(24)
    ]
    assert places == list(itertools.product(range(2), range(3), range(1), range(4)))


@pytest.mark.parametrize("parallel", [True, False])
def test_tasks_are_one_loop(parallel: bool) -> None:
    ib = tir.ir_builder.create()
    with tasks(ib, (2, 5), parallel=parallel) as (image, _):
        ib.emit(tir.Evaluate(image))
    loop = ib.get()
    assert loop.extent == 10
    assert loop.kind == (tir.ForKind.PARALLEL if parallel else tir.ForKind.SERIAL)


@pytest.mark.parametrize(
    ("size", "extent", "pieces"), [(4, 12, None), (5, 12, None), (12, 12, None), (2, 4, 3)]
)
def test_pieces_cover_an_axis_and_end_with_it(size: int, extent: int, pieces: int | None) -> None:
    number = tir.Var("number", "int32")
    count = pieces or -(-extent // size)
    start = start_of(number, size, extent, pieces)
    starts = [_value(start, {number: at}) for at in range(count)]
    assert starts[0] == 0
    assert starts[-1] + size == extent
    assert all(after - before <= size for before, after in itertools.pairwise(starts))
