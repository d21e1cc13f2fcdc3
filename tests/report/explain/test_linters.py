from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, var
from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry, Summary
from tvm_fusionx.report.explain.explanation import Report
from tvm_fusionx.report.explain.linters import find_oddities, lint_plan

x = var("x", 4, 8)
turned = relay.transpose(var("y", 8, 4))

FOUND: dict[str, tuple[str, relay.Expr]] = {
    "a transpose of a transpose": ("transpose-pair", relay.transpose(relay.transpose(x))),
    "with an activation between": (
        "transpose-pair",
        relay.transpose(relay.nn.relu(relay.transpose(x)) * relay.const(2.0)),
    ),
    "a constant": ("constant-at-run-time", x + relay.exp(const(4, 8))),
    "double precision": ("slow-type", relay.exp(var("x", 4, dtype="float64"))),
    "times one": ("no-effect", x * relay.const(1.0)),
    "zero plus": ("no-effect", relay.const(0.0) + x),
    "a cast to itself": ("no-effect", relay.cast(x, "float32")),
}

QUIET: dict[str, relay.Expr] = {
    "one transpose": turned + x,
    "a turn by two": relay.transpose(relay.transpose(var("z", 2, 3, 4), (1, 2, 0)), (1, 2, 0)),
    "a product between": relay.transpose(
        relay.nn.dense(relay.transpose(var("y", 8, 4)), const(6, 8))
    ),
    "two tensors between": relay.transpose(turned + x),
    "one minus": relay.const(0.0) - x,
    "zeros that widen": relay.const(np.zeros((4, 8), "float32")) + var("row", 1, 8),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_linter_finds_and_names_its_block(case: str) -> None:
    kind, expr = FOUND[case]
    plan = planned(expr)
    (finding,) = [finding for finding in lint_plan(plan) if finding.kind == kind]
    assert finding.blocks
    assert set(finding.blocks) <= {block.name for block in plan.blocks}
    assert any(label in finding.message for label in plan.labels.values())


@pytest.mark.parametrize("case", QUIET)
def test_a_linter_is_quiet_where_nothing_can_be_spared(case: str) -> None:
    assert lint_plan(planned(QUIET[case])) == ()


def a_block(name: str, mapping_type: str, **known: object) -> BlockEntry:
    entry = BlockEntry(name, ("op",), (), mapping_type, 0, 0, 0, 0)
    return replace(entry, **known)  # type: ignore[arg-type]


def an_edge(producer: str, consumer: str) -> EdgeEntry:
    return EdgeEntry(producer, consumer, producer, consumer, False, "recomputed", "", 4)


def report_of(*blocks: BlockEntry, edges: tuple[EdgeEntry, ...] = ()) -> Report:
    return Report("llvm", Summary(0, 0, 0, 0, 0, 0), blocks, edges)


def test_a_transpose_between_two_kernels_is_a_finding() -> None:
    blocks = (a_block("a", "Many-to-Many"), a_block("t", "Shuffle"), a_block("b", "One-to-One"))
    (finding,) = find_oddities(report_of(*blocks, edges=(an_edge("a", "t"), an_edge("t", "b"))))
    assert finding.kind == "transpose-between-blocks"
    assert finding.blocks == ("t",)


def test_a_transpose_at_the_models_border_is_not_a_finding() -> None:
    blocks = (a_block("a", "Many-to-Many"), a_block("t", "Shuffle"))
    assert find_oddities(report_of(*blocks, edges=(an_edge("a", "t"),))) == ()


def test_a_free_reshape_is_not_a_finding() -> None:
    blocks = (
        a_block("a", "Many-to-Many"),
        a_block("r", "Reorganize", is_reshape_only=True),
        a_block("b", "One-to-One"),
    )
    assert find_oddities(report_of(*blocks, edges=(an_edge("a", "r"), an_edge("r", "b")))) == ()


def test_default_schedules_and_opaque_operators_are_findings() -> None:
    blocks = (a_block("a", "Many-to-Many", template="default"), a_block("o", "Opaque"))
    assert {finding.kind: finding.blocks for finding in find_oddities(report_of(*blocks))} == {
        "default-schedule": ("a",),
        "opaque-operator": ("o",),
    }
