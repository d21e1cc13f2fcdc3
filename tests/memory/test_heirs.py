from __future__ import annotations

from dataclasses import replace

import pytest

from tests.memory.programs import IN_PLACE
from tvm_fusionx.memory import Buffer, Call, Program, check_plan, plan_memory
from tvm_fusionx.memory.heirs import heirs_of, is_heir, joined, taken_over
from tvm_fusionx.memory.lifetimes import ALIGNMENT, tenants_of

ORDER = tuple(range(len(IN_PLACE.calls)))


def test_a_result_takes_the_place_of_an_operand_that_nobody_needs_any_more() -> None:
    tenants = tenants_of(IN_PLACE, ORDER)
    heirs = heirs_of(IN_PLACE, ORDER, tenants)
    assert heirs == {0: 1, 1: 2}
    whole, members = joined(tenants, heirs)
    assert [(each.first, each.last, each.buffer) for each in whole] == [(0, 3, 2), (3, 3, 3)]
    assert members == [[0, 1, 2], [3]]


def test_an_operand_that_is_needed_later_keeps_its_place() -> None:
    first, second, third, last = IN_PLACE.calls
    again = replace(IN_PLACE, calls=(first, second, third, replace(last, reads=(2, 0))))
    assert heirs_of(again, ORDER, tenants_of(again, ORDER)) == {1: 2}


@pytest.mark.parametrize(
    "buffers",
    [
        (Buffer("a", 64), Buffer("b", 128)),
        (Buffer("a", 128), Buffer("b", 64)),
        (Buffer("a", 64), Buffer("b", 64, True)),
        (Buffer("a", 64, True), Buffer("b", 64)),
        (Buffer("a", 0), Buffer("b", 0)),
    ],
)
def test_only_what_is_as_large_and_in_the_arena_is_taken_over(buffers: tuple[Buffer, ...]) -> None:
    call = Call("k", (0,), (1,), in_place=((0, 1),))
    assert taken_over(Program(buffers, (call,)), call, {0}) == []


def test_two_results_do_not_take_one_place() -> None:
    buffers = tuple(Buffer(name, 64) for name in "abcd")
    call = Call("k", (0, 1), (2, 3), in_place=((0, 2), (0, 3), (1, 2), (1, 3)))
    assert taken_over(Program(buffers, (call,)), call, {0, 1}) == [(0, 2), (1, 3)]


def test_the_arena_is_smaller_and_the_plan_is_checked() -> None:
    plan = plan_memory(IN_PLACE)
    plain = replace(IN_PLACE, calls=tuple(replace(each, in_place=()) for each in IN_PLACE.calls))
    assert (plan.arena_bytes, plan_memory(plain).arena_bytes) == (5 * ALIGNMENT, 8 * ALIGNMENT)
    assert plan.live == [4 * ALIGNMENT] * 3 + [5 * ALIGNMENT]
    assert plan.place_of(0) == plan.place_of(1) == plan.place_of(2)
    with pytest.raises(ValueError, match="lie in one place"):
        check_plan(replace(plan, program=plain))
    # Half of a place is no place: the two would begin at different elements.
    offsets = (plan.offsets[0] + ALIGNMENT, *plan.offsets[1:])
    with pytest.raises(ValueError, match="lie in one place"):
        check_plan(replace(plan, offsets=offsets))


def test_no_proof_no_heir() -> None:
    a, b, _, other = tenants_of(IN_PLACE, ORDER)
    assert is_heir(IN_PLACE, ORDER, a, b)
    assert not is_heir(IN_PLACE, ORDER, b, a)
    assert not is_heir(IN_PLACE, ORDER, a, other)
    assert not is_heir(IN_PLACE, ORDER, a, replace(b, bytes=b.bytes + ALIGNMENT))
