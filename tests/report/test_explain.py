from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx.lowering import lowering
from tvm_fusionx.pipeline import pipeline
from tvm_fusionx.report.explain import explain, find_oddities, with_schedules
from tvm_fusionx.report.explanation import BlockEntry, EdgeEntry, Report, Summary

TARGET = "llvm -mcpu=native"
FLOAT_BYTES = 4
# Too large for the planner to take two products for one chain of tiny ones.
ROWS, WIDTH = 128, 256


def two_products() -> tvm.IRModule:
    """Two matrix products with a relu between them: the relu can join one of them, not both."""
    x = relay.var("x", shape=(ROWS, WIDTH))
    weight = relay.const(np.ones((WIDTH, WIDTH), np.float32))
    hidden = relay.nn.relu(relay.nn.dense(x, weight))
    return tvm.IRModule.from_expr(relay.nn.dense(hidden, weight))


def test_two_products_are_two_kernels_and_the_edge_between_them_has_a_reason() -> None:
    report = explain(two_products(), TARGET)
    assert report.summary == Summary(
        operators=3,
        kernels_unfused=3,
        kernels=2,
        intermediate_bytes_unfused=2 * ROWS * WIDTH * FLOAT_BYTES,
        intermediate_bytes=ROWS * WIDTH * FLOAT_BYTES,
        flops=report.summary.flops,
    )
    assert report.summary.flops >= 2 * 2 * ROWS * WIDTH * WIDTH
    (reason,) = report.reasons()
    assert reason["edges"] == 1
    assert reason["bytes"] == ROWS * WIDTH * FLOAT_BYTES
    assert reason["reason"] == "second-contraction"


def test_every_operator_is_in_one_block_and_edges_name_their_blocks() -> None:
    report = explain(two_products(), TARGET)
    names = [block.name for block in report.blocks]
    operators = [op for block in report.blocks for op in block.operators]
    assert len(operators) == report.summary.operators == 3
    assert operators.count("nn.relu") == 1
    assert len(set(names)) == len(names)
    for edge in report.edges:
        assert {edge.producer_block, edge.consumer_block} <= set(names)
        assert edge.fused == (edge.producer_block == edge.consumer_block)
        assert bool(edge.reason) != edge.fused


def test_the_module_is_left_as_it_is() -> None:
    mod = two_products()
    before = tvm.ir.structural_hash(mod)
    explain(mod, TARGET)
    assert tvm.ir.structural_hash(mod) == before


def test_rewriting_rules_are_counted() -> None:
    a, b, c = (relay.var(name, shape=(4, 8)) for name in "abc")
    report = explain(tvm.IRModule.from_expr(a * c + b * c), TARGET)
    assert [times for _, times in report.rewrites] == [1]
    assert report.summary.operators == 2


def test_what_is_not_a_graph_is_a_finding() -> None:
    condition, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(4,))
    branches = relay.If(condition, relay.exp(x), relay.log(x))
    mod = tvm.IRModule.from_expr(relay.Function([condition, x], branches))
    report = explain(mod, TARGET)
    assert [finding.kind for finding in report.findings] == ["not-a-graph"]
    assert report.blocks == ()


def test_a_build_tells_the_template_of_each_kernel(tmp_path: Path) -> None:
    mod = two_products()
    with lowering(TARGET) as log:
        library = relay.build(pipeline(TARGET)(mod), target=TARGET)
    report = with_schedules(explain(mod, TARGET), library, log)
    assert all(block.template for block in report.blocks)
    report.save_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 0


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
