from __future__ import annotations

import pytest
import tvm
from tvm import relay

from tvm_fusionx.build.phases import Phase, Phases, passes_of
from tvm_fusionx.errors import PhaseError

FOLD = relay.transform.FoldConstant()
INFER = relay.transform.InferType()

ORDER = Phases((Phase("laws", (FOLD,)), Phase("blocks", (INFER,)), Phase("rest", ())))


def test_edits_leave_the_order_that_they_are_made_from() -> None:
    mine = Phase("mine", (INFER,))
    assert ORDER.before("blocks", mine).names == ("laws", "mine", "blocks", "rest")
    assert ORDER.after("blocks", mine).names == ("laws", "blocks", "mine", "rest")
    assert ORDER.without("laws", "rest").names == ("blocks",)
    assert ORDER.replaced("laws", mine).names == ("mine", "blocks", "rest")
    assert ORDER.moved("laws", after="blocks").names == ("blocks", "laws", "rest")
    assert ORDER.moved("rest", after="laws").names == ("laws", "rest", "blocks")
    assert ORDER.names == ("laws", "blocks", "rest")


def test_passes_run_in_the_order_of_their_phases() -> None:
    whole = ORDER.moved("laws", after="blocks").sequential("all")
    assert [step.info.name for step in whole.passes] == ["InferType", "FoldConstant"]
    assert whole.info.name == "all"


@pytest.mark.parametrize(
    "edit",
    [
        lambda: ORDER.before("layout", Phase("mine", ())),
        lambda: ORDER.after("layout", Phase("mine", ())),
        lambda: ORDER.without("layout"),
        lambda: ORDER.moved("layout", after="laws"),
        lambda: ORDER.moved("laws", after="layout"),
        lambda: ORDER.replaced("layout", Phase("mine", ())),
        lambda: ORDER.phase("layout"),
    ],
)
def test_a_phase_that_is_not_there_is_named_with_those_that_are(edit: object) -> None:
    with pytest.raises(PhaseError, match=r"'layout'.*blocks, rest"):
        edit()  # type: ignore[operator]


def test_two_phases_of_one_name_are_refused() -> None:
    with pytest.raises(PhaseError, match="two phases of that name"):
        ORDER.after("laws", Phase("rest", ()))


def test_a_phase_cannot_stand_after_itself() -> None:
    with pytest.raises(PhaseError, match="'laws'"):
        ORDER.moved("laws", after="laws")


def test_one_pass_or_several_are_taken_and_nothing_else() -> None:
    assert passes_of(FOLD) == (FOLD,)
    assert passes_of([FOLD, INFER]) == (FOLD, INFER)
    with pytest.raises(PhaseError, match="a pass of TVM, or several; found function"):
        passes_of([lambda mod: mod])
    with pytest.raises(PhaseError, match="found IRModule"):
        passes_of([tvm.IRModule()])
    with pytest.raises(PhaseError, match="found int"):
        passes_of(7)
