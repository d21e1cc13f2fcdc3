from __future__ import annotations

from hypothesis import given, settings

from tests.memory.programs import LENT, programs
from tvm_fusionx.memory import plan_memory
from tvm_fusionx.memory.lending import Lender, least_arena, lend, lenders_of
from tvm_fusionx.memory.lifetimes import ALIGNMENT, live_bytes, tenants_of
from tvm_fusionx.memory.program import Buffer, Call, Program

ORDER = (0, 1, 2)


def test_an_output_lends_until_it_is_written() -> None:
    assert lenders_of(LENT, ORDER) == (Lender(2, 320, 2),)
    tenants = tenants_of(LENT, ORDER)
    # b is read by the call that writes the output.
    assert [Lender(2, 320, 2).can_hold(each) for each in tenants] == [True, False]
    assert lend(tenants, lenders_of(LENT, ORDER), 3) == {0: (2, 0)}


def test_the_arena_is_smaller_by_what_is_lent() -> None:
    plan = plan_memory(LENT)
    assert (plan.arena_bytes, plan.bound_bytes, plan.homes) == (128, 128, (2, None))
    assert plan.place_of(0) == (2, 0)
    assert plan.live == [0, 128, 128]


def test_what_is_too_large_or_a_workspace_is_not_lent() -> None:
    small = Program((*LENT.buffers[:2], Buffer("out", 255, True)), LENT.calls)
    assert lenders_of(small, ORDER) == (Lender(2, 192, 2),)
    assert plan_memory(small).arena_bytes == 384
    needs = Program((Buffer("out", 640, True),), (Call("k", (), (), 128), Call("w", (), (0,))))
    assert plan_memory(needs).arena_bytes == 128


def test_several_lie_side_by_side_at_one_lender() -> None:
    buffers = (Buffer("a", 128), Buffer("b", 128), Buffer("c", 64), Buffer("out", 256, True))
    calls = (
        Call("k0", (), (0,)),
        Call("k1", (), (1,)),
        Call("k2", (0, 1), (2,)),
        Call("k3", (2,), (3,)),
    )
    plan = plan_memory(Program(buffers, calls))
    assert {plan.place_of(0), plan.place_of(1)} == {(3, 0), (3, 128)}
    assert plan.arena_bytes == 64


@settings(deadline=None, max_examples=60)
@given(programs())
def test_lending_never_makes_an_arena_larger(some: Program) -> None:
    order = tuple(range(len(some.calls)))
    tenants = tenants_of(some, order)
    lenders = lenders_of(some, order)
    lent = lend(tenants, lenders, len(order))
    kept = [each for number, each in enumerate(tenants) if number not in lent]
    least = least_arena(tenants, lenders, len(order))
    assert least <= max(live_bytes(kept, len(order))) <= max(live_bytes(tenants, len(order)))
    assert all(tenants[number].bytes % ALIGNMENT == 0 for number in lent)
