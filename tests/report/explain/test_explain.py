from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relay

from tvm_fusionx.build.build import build
from tvm_fusionx.build.pipeline import pipeline
from tvm_fusionx.errors import InputError
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.explain.entries import Summary
from tvm_fusionx.report.explain.explain import explain, with_schedules
from tvm_fusionx.schedules import CPU_TEMPLATES, resolve_target

TARGET = "llvm -mcpu=native"
FLOAT_BYTES = 4
# Too large for the planner to take two products for one chain of tiny ones; whole panels of weights
# of any register count, for what is left of a panel is cut off by an operator more.
ROWS, WIDTH = 128, 384


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


def test_the_steps_of_growth_end_in_the_blocks() -> None:
    report = explain(two_products(), TARGET)
    grown = {block.labels for block in report.blocks if len(block.labels) > 1}
    assert grown
    assert grown <= set(report.steps)
    assert all(len(step) > 1 for step in report.steps)
    assert explain(two_products(), TARGET, fuse=False).steps == ()


def test_a_library_tells_templates_and_code() -> None:
    mod = two_products()
    library = build(mod, TARGET)
    report = explain(mod, TARGET, library=library)
    assert {block.template for block in report.blocks} <= {each.name for each in CPU_TEMPLATES}
    assert all(block.tir is not None for block in report.blocks)
    with pytest.raises(InputError, match="another one"):
        explain(mod, TARGET, fuse=False, library=library)
    with pytest.raises(InputError, match=r"fx\.build"):
        explain(mod, TARGET, library=object())


def test_what_is_not_a_graph_is_a_finding() -> None:
    condition, x = relay.var("c", shape=(), dtype="bool"), relay.var("x", shape=(4,))
    branches = relay.If(condition, relay.exp(x), relay.log(x))
    mod = tvm.IRModule.from_expr(relay.Function([condition, x], branches))
    report = explain(mod, TARGET)
    assert [finding.kind for finding in report.findings] == ["not-a-graph"]
    assert report.blocks == ()


def test_what_comes_before_the_data_decides_is_explained() -> None:
    x = relay.var("x", shape=(4, 8))
    mod = tvm.IRModule.from_expr(relay.argwhere(relay.tanh(relay.exp(x)) * relay.const(2.0)))
    report = explain(mod, TARGET)
    first = report.findings[0]
    assert first.kind == "virtual-machine"
    assert "argwhere" in first.message
    assert report.summary.operators == 3
    assert len(report.blocks) == 1


def test_what_stands_between_and_behind_is_explained_too() -> None:
    x = relay.var("x", shape=(4, 8))
    places = relay.argwhere(relay.tanh(relay.exp(x)) * relay.const(2.0))
    rows = relay.shape_of(places, dtype="int64")
    behind = relay.exp(relay.tanh(relay.cast(rows, "float32")) + relay.const(1.0))
    report = explain(tvm.IRModule.from_expr(relay.Tuple([places, behind])), TARGET)
    assert "2 static functions are planned" in report.findings[0].message
    assert report.summary.operators == 3 + 4
    names = [block.name for block in report.blocks]
    assert len(set(names)) == len(names)
    assert {name.split("/")[0] for name in names} == {"main_static_0", "main_static_1"}
    assert report.summary.kernels == 2
    assert "main_static_1/" in report.text()
    answer = report.between(report.blocks[0].labels[0], report.blocks[0].labels[1])
    assert answer.is_one_block
    assert names[0].startswith("main_static_0/")


def test_a_build_tells_the_template_of_each_kernel(tmp_path: Path) -> None:
    mod = two_products()
    with lowering(TARGET) as log:
        library = relay.build(pipeline(TARGET)(mod), target=resolve_target(TARGET))
    report = with_schedules(explain(mod, TARGET), library, log)
    assert all(block.template for block in report.blocks)
    # Every template that stands before the one that serves says why it does not.
    names = [template.name for template in CPU_TEMPLATES]
    for block in report.blocks:
        assert block.template is not None
        before = names[: names.index(block.template)]
        assert [refusal.template for refusal in block.refusals] == before
        assert all(refusal.reason for refusal in block.refusals)
    assert f"{report.blocks[0].name}: {report.blocks[0].template}" in report.text()
    assert "  not winograd: it is no minimal filtering" in report.text()
    assert report.to_json()["blocks"][0]["refusals"][0]["template"] == "winograd"
    # Equal blocks share their text; these two differ by a relu.
    assert len(report.tir) == 2
    assert all("T.prim_func" in report.tir[block.tir] for block in report.blocks)
    report.save_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size > 0


def test_what_stands_out_in_the_graph_is_a_finding() -> None:
    x = relay.var("x", shape=(4, 8), dtype="float64")
    report = explain(tvm.IRModule.from_expr(relay.exp(relay.tanh(x))), TARGET)
    (finding,) = report.findings
    assert finding.kind == "slow-type"
    assert finding.blocks == tuple(block.name for block in report.blocks)


def test_the_optimal_plan_tells_how_good_it_is() -> None:
    assert explain(two_products(), TARGET).plan == ""
    assert "legal blocks" in explain(two_products(), TARGET, planner="optimal").plan
