from __future__ import annotations

import shutil

import pytest
from tvm import relay

import tvm_fusionx as fx
from tests.relay_modules import TARGET, const, module, var
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.build.memory import memory_of_build
from tvm_fusionx.report.memory.measured import written_arena_bytes

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")


def test_a_run_writes_what_the_plan_says() -> None:
    wide = relay.nn.softmax(relay.nn.dense(var("x", 8, 32), const(64, 32)))
    library = fx.build(module(relay.nn.softmax(relay.nn.dense(wide, const(16, 64)))), TARGET)
    log = getattr(library, BUILT_FROM)[1]
    planned = memory_of_build(library, log).plan.arena_bytes
    assert planned - 64 < written_arena_bytes(library, log) <= planned


def test_what_needs_no_arena_writes_none() -> None:
    library = fx.build(module(relay.nn.relu(var("x", 8, 32))), TARGET)
    assert written_arena_bytes(library, getattr(library, BUILT_FROM)[1]) == 0
