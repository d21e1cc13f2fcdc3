"""Blocks meet our schedules or a typed error, and modules without blocks meet TVM as before."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import tvm
from tvm import relay

from tests.relay_modules import TARGET, const, module, var
from tvm_fusionx.errors import LoweringError
from tvm_fusionx.lowering import lowering
from tvm_fusionx.passes import FuseByMapping, PackLayouts
from tvm_fusionx.schedules import resolve_target

RESOLVED = resolve_target(TARGET)
OTHER = "llvm -mcpu=x86-64"


def a_product() -> tvm.IRModule:
    """A product and the softmax of its rows: two expensive operators for TVM, one block for us."""
    return module(relay.nn.softmax(relay.nn.dense(var("x", 8, 64), const(64, 64))))


def blocks() -> tvm.IRModule:
    """Return the module that README's passes make of it."""
    passes = [PackLayouts(RESOLVED), FuseByMapping(RESOLVED)]
    return tvm.transform.Sequential(passes)(a_product())


BUILDS: dict[str, Callable[[Any, Any], Any]] = {
    "graph": lambda mod, target: relay.build(mod, target=target),
    "vm": lambda mod, target: relay.vm.compile(mod, target=target),
}


@pytest.mark.parametrize("build", BUILDS)
def test_outside_of_the_scope_the_error_names_it(build: str) -> None:
    mod = blocks()
    expected = r"build of 1 block .*`with fx.lowering\(target\):`.*found no such scope"
    with tvm.transform.PassContext(opt_level=3), pytest.raises(LoweringError, match=expected):
        BUILDS[build](mod, RESOLVED)


def test_inside_of_the_scope_the_blocks_are_built() -> None:
    with lowering(TARGET) as log:
        relay.build(blocks(), target=RESOLVED)
        with RESOLVED:
            relay.build(blocks())
    assert len(log.entries) == 2


@pytest.mark.parametrize("asked", [OTHER, "llvm", tvm.target.Target(OTHER)])
def test_another_target_than_the_scopes_is_refused(asked: Any) -> None:
    mod = blocks()
    expected = r"found fx.lowering\('llvm .*'\) and a build for 'llvm.*resolve_target"
    with lowering(TARGET), pytest.raises(LoweringError, match=expected):
        relay.build(mod, target=asked)


def test_the_innermost_scope_counts() -> None:
    mod = blocks()
    with lowering(TARGET):
        with lowering(OTHER), pytest.raises(LoweringError, match="a build for"):
            relay.build(mod, target=RESOLVED)
        relay.build(mod, target=RESOLVED)
    with pytest.raises(LoweringError, match="no such scope"):
        relay.build(mod, target=RESOLVED)


def test_a_context_that_hides_the_scope_is_named() -> None:
    mod = blocks()
    with (
        lowering(TARGET),
        tvm.transform.PassContext(opt_level=3),
        pytest.raises(LoweringError, match=r"PassContext opened inside .*Open the PassContext out"),
    ):
        relay.build(mod, target=RESOLVED)


def test_a_scope_of_another_thread_does_not_count() -> None:
    mod = blocks()
    caught: list[Exception] = []

    def build() -> None:
        try:
            relay.build(mod, target=RESOLVED)
        except LoweringError as error:
            caught.append(error)

    with lowering(TARGET):
        worker = threading.Thread(target=build)
        worker.start()
        worker.join()
    assert "in this thread" in str(caught[0])


def test_modules_without_blocks_are_built_as_before() -> None:
    blocks()
    plain = module(relay.nn.relu(var("x", 4)))
    with tvm.transform.PassContext(opt_level=3):
        assert "relu" in relay.build(plain, OTHER).get_graph_json()
    p = var("p", 4)
    mine = relay.Function([p], relay.nn.relu(p)).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    relay.build(module(relay.Call(mine, [var("x", 4)])), OTHER)


def test_importing_changes_no_build_and_the_first_blocks_do_once() -> None:
    script = """
import tvm
from tvm import relay
from tvm.relay.build_module import BuildModule
before = BuildModule.build
import tvm_fusionx as fx
assert BuildModule.build is before
mod = tvm.IRModule.from_expr(relay.nn.relu(relay.var("x", shape=(4,))))
fx.passes.FuseByMapping()(mod)
guarded = BuildModule.build
assert guarded.__wrapped__ is before
fx.passes.FuseByMapping()(mod)
assert BuildModule.build is guarded
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
