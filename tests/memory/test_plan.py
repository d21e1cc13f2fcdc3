from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from tests.memory.programs import BRANCHES, LENT, programs
from tvm_fusionx.memory import Buffer, Call, Program, check_plan, plan_memory
from tvm_fusionx.memory.lifetimes import ALIGNMENT


def test_another_order_is_taken_where_it_needs_less() -> None:
    kept, moved = plan_memory(BRANCHES, reorder=False), plan_memory(BRANCHES)
    assert (kept.arena_bytes, moved.arena_bytes) == (17 * ALIGNMENT, 10 * ALIGNMENT)
    assert (kept.order, kept.gap_bytes, moved.gap_bytes) == ((0, 1, 2, 3, 4, 5), 0, 0)
    assert moved.is_best_order
    assert kept.peak_call == "k2"


def test_offsets_are_told_by_buffer_and_by_call() -> None:
    buffers = (Buffer("a", 64), Buffer("out", 64, True), Buffer("none", 0))
    plan = plan_memory(Program(buffers, (Call("k0", (), (0, 2), 128), Call("k1", (0,), (1,)))))
    assert plan.place_of(0)[0] is None
    assert {plan.place_of(0)[1], plan.workspace_offset(0)} in ({0, 64}, {0, 128})
    assert plan.place_of(2) == (None, 0)
    assert plan.workspace_offset(1) == 0
    with pytest.raises(KeyError):
        plan.place_of(1)


def test_a_wrong_plan_is_refused() -> None:
    plan = plan_memory(BRANCHES)
    with pytest.raises(ValueError, match="lie in one place"):
        check_plan(replace(plan, offsets=(0,) * len(plan.offsets)))
    with pytest.raises(ValueError, match="would run before"):
        check_plan(replace(plan, order=(5, 4, 3, 2, 1, 0)))
    with pytest.raises(ValueError, match="not there when they are used"):
        check_plan(replace(plan, order=(0, 1, 2, 3, 4, 5)))
    shifted = tuple(offset + 8 for offset in plan.offsets)
    with pytest.raises(ValueError, match="no multiple of 64"):
        check_plan(replace(plan, offsets=shifted))


def test_memory_that_is_lent_must_be_free_then() -> None:
    plan = plan_memory(LENT)
    with pytest.raises(ValueError, match="b does not fit where it is lent memory"):
        check_plan(replace(plan, homes=(None, 2), offsets=(0, 0)))
    # One unit further than the lender reaches.
    check_plan(replace(plan, offsets=(64, 0)))
    with pytest.raises(ValueError, match="a does not fit where it is lent memory"):
        check_plan(replace(plan, offsets=(128, 0)))


def test_nothing_to_run_needs_nothing() -> None:
    plan = plan_memory(Program((), ()))
    assert (plan.arena_bytes, plan.peak_call, plan.live) == (0, "", [])


@settings(deadline=None, max_examples=60)
@given(programs())
def test_a_plan_is_right_and_no_larger_than_without_reordering(some: Program) -> None:
    plan = plan_memory(some, time_limit_seconds=0)
    check_plan(plan)
    assert plan.bound_bytes <= max(plan.live, default=0) <= plan.arena_bytes
    assert plan.arena_bytes <= plan_memory(some, reorder=False, time_limit_seconds=0).arena_bytes


@settings(deadline=None, max_examples=20)
@given(programs())
def test_a_coarser_alignment_holds_for_every_offset_and_size(some: Program) -> None:
    plan = plan_memory(some, time_limit_seconds=0, alignment=512)
    check_plan(plan)
    assert not any(offset % 512 for offset in plan.offsets)
    assert not any(tenant.bytes % 512 for tenant in plan.tenants)
    assert plan.bound_bytes <= plan.arena_bytes
