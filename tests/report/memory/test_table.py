from __future__ import annotations

from dataclasses import replace

from tests.build.test_memory import GRAPH, PARAMS
from tests.memory.programs import BRANCHES
from tvm_fusionx.build.memory import memory_of
from tvm_fusionx.late_passes.workspaces import Workspace
from tvm_fusionx.memory import plan_memory
from tvm_fusionx.report.memory.table import memory_lines


def test_the_lines_tell_every_part() -> None:
    lines = memory_lines(memory_of(GRAPH, PARAMS, {"second": Workspace(64)}))
    assert [line.split("  ")[0] for line in lines][:3] == ["weights", "inputs and outputs", "arena"]
    text = "\n".join(lines)
    assert "256 bytes, the least for this order" in text
    assert "256 bytes of the arena at second" in text
    assert "as they were; none needs less" in text
    assert "256 bytes with inputs and outputs, no workspaces" in text


def test_an_order_that_was_changed_and_a_gap_are_told() -> None:
    memory = replace(memory_of(GRAPH, PARAMS, {}), plan=plan_memory(BRANCHES))
    assert "changed; none needs less" in "\n".join(memory_lines(memory))
    apart = tuple(offset + 64 for offset in memory.plan.offsets)
    shifted = replace(memory, plan=replace(memory.plan, offsets=apart, is_best_order=False))
    text = "\n".join(memory_lines(shifted))
    assert "at most 64 bytes over the least" in text
    assert "no better one was found" in text
