"""The order of templates, and what happens when one fails."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay

from tests.relay_modules import var
from tests.schedules.blocked_blocks import unscheduled
from tvm_fusionx import schedules
from tvm_fusionx.schedules import (
    ALL_TEMPLATES,
    CPU_TEMPLATES,
    GPU_TEMPLATES,
    Family,
    Template,
    UnschedulableError,
    describe_cpu,
    schedule,
)
from tvm_fusionx.schedules.default import DEFAULT
from tvm_fusionx.schedules.gpu.default import GPU_DEFAULT
from tvm_fusionx.schedules.template import Knob, Knobs, KnobValues, Match, Refusal
from tvm_fusionx.tir.block import BlockInfo

TARGET = tvm.target.Target("llvm -num-cores=2")


class _Failing(Match):
    def knobs(self) -> Knobs:
        return {}

    def emit(self, values: KnobValues) -> Any:
        raise UnschedulableError("it always does")


def _undecided(info: BlockInfo) -> Match | str:
    raise TypeError("it always does")


def _serve_cpus_with(monkeypatch: pytest.MonkeyPatch, *templates: Template) -> None:
    monkeypatch.setitem(schedules.FAMILIES, "llvm", Family(describe_cpu, templates))


FAILING = Template("failing", _Failing)
UNDECIDED = Template("failing", _undecided)
REFUSING = Template("refusing", lambda info: f"it has {len(info.stages)} stages")


def test_names_are_unique_and_the_default_is_last() -> None:
    names = [template.name for template in ALL_TEMPLATES]
    assert len(set(names)) == len(names)
    assert CPU_TEMPLATES[-1] is DEFAULT
    assert GPU_TEMPLATES[-1] is GPU_DEFAULT
    assert all(schedules.template_named(name).name == name for name in names)


def test_a_value_that_is_no_choice_leaves_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[dict[str, int]] = []

    class Recording(Match):
        def knobs(self) -> Knobs:
            return {"rows": Knob(2, (1, 2)), "columns": Knob(4, (4, 8))}

        def emit(self, values: KnobValues) -> Any:
            used.append(dict(values))
            return self.info.func

    template = Template("recording", Recording)
    _serve_cpus_with(monkeypatch, template)
    block = unscheduled(relay.exp(var("x", 8)))
    scheduled = schedule(block, TARGET, {"rows": 3, "columns": 8})
    assert used == [scheduled.knobs] == [{"rows": 2, "columns": 8}]
    assert scheduled.fallback_reason == "recording: rows is 2, as 3 is no choice"
    assert schedule(block, TARGET, {"rows": 1}).fallback_reason is None


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="abacus"):
        schedules.template_named("abacus")


@pytest.mark.parametrize("failing", [FAILING, UNDECIDED])
def test_a_failing_template_hands_over_with_its_reason(
    failing: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    _serve_cpus_with(monkeypatch, failing, DEFAULT)
    scheduled = schedule(unscheduled(relay.exp(var("x", 8))), TARGET)
    assert scheduled.template == "default"
    assert scheduled.fallback_reason == "failing: it always does"
    assert scheduled.refusals == (Refusal("failing", "it always does"),)


def test_every_template_passed_over_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    _serve_cpus_with(monkeypatch, REFUSING, FAILING, DEFAULT)
    scheduled = schedule(unscheduled(relay.exp(var("x", 8))), TARGET)
    assert scheduled.template == "default"
    assert scheduled.refusals == (
        Refusal("refusing", "it has 1 stages"),
        Refusal("failing", "it always does"),
    )
    # A template that does not serve a block is no reason to worry.
    assert scheduled.fallback_reason == "failing: it always does"


def test_a_block_that_nothing_serves_comes_back_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    _serve_cpus_with(monkeypatch, FAILING)
    func = unscheduled(relay.exp(var("x", 8)))
    scheduled = schedule(func, TARGET)
    assert scheduled.func.same_as(func)
    assert scheduled.template == "unscheduled"
    assert scheduled.fallback_reason is not None


def test_a_target_without_templates_keeps_the_block() -> None:
    func = unscheduled(relay.exp(var("x", 8)))
    scheduled = schedule(func, tvm.target.Target("c"))
    assert scheduled.func.same_as(func)


def test_knobs_are_applied_and_unknown_ones_ignored() -> None:
    func = unscheduled(relay.nn.matmul(var("x", 8, 6), var("w", 6, 32)))
    scheduled = schedule(func, TARGET, {"tile_rows": 2, "colour": 3})
    assert scheduled.template == "dot"
    assert scheduled.knobs["tile_rows"] == 2
    assert "colour" not in scheduled.knobs
