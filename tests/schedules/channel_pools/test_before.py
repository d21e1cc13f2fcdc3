"""What computes the data under a window: read where it lies, or computed for a channel."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import relay, tir

from tests.relay_modules import var
from tests.schedules.blocked_blocks import describe
from tvm_fusionx._tvm.cures import concatenation_as_expression
from tvm_fusionx.schedules.channel_pools.before import each_piece, fill, place_of
from tvm_fusionx.schedules.channel_pools.places import part_of
from tvm_fusionx.schedules.channel_pools.window import Before
from tvm_fusionx.schedules.parts.vectors import ramp

SIZE = (4, 6, 16)
LANES = 8


def _joined(axis: int, *sizes: tuple[int, ...]) -> relay.Expr:
    return relay.concatenate([var(f"p{i}", 1, 3, *size) for i, size in enumerate(sizes)], axis)


BODIES = {
    "pieces": _joined(1, SIZE, SIZE),
    "pieces of rows": _joined(3, (4, 2, 16), (4, 4, 16)),
    "work": relay.abs(var("x", 1, 3, *SIZE)),
    "a transposition": relay.transpose(var("x", 1, 3, 4, 16, 6), (0, 1, 2, 4, 3)),
    "part of the planes": relay.strided_slice(var("x", 1, 3, 7, 6, 16), [0], [4], axes=[2]),
}


def _values(case: str) -> tuple[Any, list[tuple[Any, list[Any]]]]:
    """Return what is emitted for the pieces, and their values with the variables they take."""
    found: list[tuple[Any, list[Any]]] = []
    ib = tir.ir_builder.create()
    with concatenation_as_expression():
        (stage,) = describe(BODIES[case]).stages.values()

    def emit(value: Any, moving: list[Any]) -> None:
        found.append((value, moving))
        ib.emit(tir.Evaluate(len(found)))

    each_piece(ib, Before(stage, is_result=False), (0, tir.Var("channel", "int32")), emit)
    return ib.get(), found


def test_a_channel_asks_once_which_piece_it_comes_from() -> None:
    stmt, found = _values("pieces")
    assert isinstance(stmt, tir.IfThenElse)
    assert [value.buffer.name for value, _ in found] == ["p1", "p0"]


@pytest.mark.parametrize("case", [case for case in BODIES if case != "pieces"])
def test_what_differs_inside_a_channel_is_one_value(case: str) -> None:
    assert len(_values(case)[1]) == 1


@pytest.mark.parametrize("case", BODIES)
def test_only_whole_channels_are_read_where_they_lie(case: str) -> None:
    places = [place_of(value, moving, SIZE) for value, moving in _values(case)[1]]
    if case != "pieces":
        assert places == [None]
        return
    for place in places:
        assert place is not None
        buffer, indices = place(ramp(5, LANES))
        assert buffer.name in ("p0", "p1")
        assert len(indices) == len(buffer.shape)
        assert isinstance(indices[-1], tir.Ramp)


@pytest.mark.parametrize(
    ("case", "loops"), [("pieces", 1), ("work", 1), ("a transposition", 3), ("pieces of rows", 3)]
)
def test_vectors_run_across_rows_that_are_read_in_order(case: str, loops: int) -> None:
    value, moving = _values(case)[1][0]
    ib = tir.ir_builder.create()
    fill(ib, part_of(tir.decl_buffer((4 * 6 * 16,)), 0), value, moving, SIZE, LANES)
    found: list[tir.ForKind] = []

    def find(node: Any) -> None:
        if isinstance(node, tir.For):
            found.append(node.kind)

    tir.stmt_functor.post_order_visit(ib.get(), find)
    assert found.count(tir.ForKind.SERIAL) == loops
    assert found.count(tir.ForKind.VECTORIZED) == (1 if loops == 1 else 0)
