from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import helper

import tvm_fusionx as fx
from tests.data_models import floats, made
from tests.tiny_models import TARGET
from tvm_fusionx.build.vm_program import build_for_machine
from tvm_fusionx.report.explain.explain import VIRTUAL_MACHINE, explain
from tvm_fusionx.report.explain.of_machine import with_machine_profile, with_machine_schedules
from tvm_fusionx.report.profile.machine_profile import profile_machine

FEEDS = {"x": floats(8, 16)}


@pytest.fixture(scope="module")
def explained() -> tuple[Any, Any]:
    """Return a report and a build: products, a selection by data, and what follows it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Relu", ["product"], ["kept"]),
        helper.make_node("NonZero", ["kept"], ["places"]),
        helper.make_node("Cast", ["places"], ["numbers"], to=1),
        helper.make_node("ReduceMean", ["numbers"], ["mean"], axes=[1], keepdims=0),
        helper.make_node("Exp", ["mean"], ["y"]),
    ]
    mod, _ = fx.from_onnx(made(nodes, FEEDS, ["y"], {"w": floats(16, 12, seed=1)}, opset=17))
    program = build_for_machine(mod, TARGET)
    return explain(mod, TARGET), program


def test_blocks_have_templates_and_texts(explained: Any) -> None:
    report, program = explained
    assert program.build is not None
    found = with_machine_schedules(report, program.build.log)
    templates = {block.name: block.template for block in found.blocks}
    assert templates["main_static_0/dense_relu_not_equal"] == "dot"
    assert templates["main_static_1/exp"] == "rows"
    assert found.findings[0].kind == VIRTUAL_MACHINE
    assert any("def main" in text or "@T.prim_func" in text for text in found.tir)


def test_blocks_have_times_and_open_operators_are_told_together(explained: Any) -> None:
    report, program = explained
    log = program.build.log
    profile = profile_machine(program, FEEDS, repeat=1, peak=None)
    found = with_machine_profile(with_machine_schedules(report, log), profile, log)
    by_name = {block.name: block for block in found.blocks}
    dense = by_name["main_static_0/dense_relu_not_equal"]
    assert dense.seconds is not None
    assert dense.seconds > 0
    assert found.run_seconds == profile.end_to_end_seconds
    (told,) = [each for each in found.findings if each.kind == "open-operators"]
    shares = [block.share for block in found.blocks if block.share is not None]
    percent = float(told.message.split()[0])
    assert abs(sum(shares) * 100 + percent - 100) < 1
    # TVM schedules the selection by itself, and no kernel is known to be its.
    assert by_name["main_static_0/fusionx_places"].seconds is None
    text = found.text()
    assert "of time" in text
    assert not [line for line in text.splitlines() if "of time" in line and "places" in line]


def test_what_a_run_did_not_come_by_took_no_time(explained: Any) -> None:
    report, program = explained
    log = program.build.log
    profile = profile_machine(program, FEEDS, repeat=1, peak=None)
    short = replace(profile, kernels=())
    found = with_machine_profile(report, short, log)
    by_name = {block.name: block for block in found.blocks}
    assert by_name["main_static_1/exp"].seconds == 0.0
    assert np.isclose(sum(block.share or 0.0 for block in found.blocks), 0)
