"""One way to test a pass: what it makes of a module, and all that holds for every pass."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relay

from tests.relay_modules import (
    REASSOCIATING,
    TARGET,
    assert_close,
    inputs_of,
    operator_names,
    run_plain,
)
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target


def assert_pass(
    pass_: Any, before: tvm.IRModule, expected: tvm.IRModule, *, tolerance: float = REASSOCIATING
) -> None:
    """Check what a pass makes of a module.

    Operators and structure are those of `expected`, the module that was given is as it was, a
    second run changes nothing, and the numbers are those of a plain TVM build of `before`.
    """
    found = _run(pass_, before)
    assert operator_names(found["main"]) == operator_names(expected["main"])
    tvm.ir.assert_structural_equal(found, expected)
    assert_numbers_agree(before, found, tolerance)


def assert_unchanged(pass_: Any, before: tvm.IRModule, *, because: str) -> None:
    """Check that a pass leaves a module as it is; `because` is for whoever sees it fail."""
    assert tvm.ir.structural_equal(_run(pass_, before), before), f"changed, although {because}"


def assert_numbers_agree(
    before: tvm.IRModule, after: tvm.IRModule, tolerance: float = REASSOCIATING
) -> None:
    """Check that `after`, built by our lowering, gives what plain TVM gives for `before`."""
    inputs = inputs_of(before)
    with lowering(TARGET):
        library = relay.build(after, resolve_target(TARGET))
    assert_close(run_once(library, inputs), run_plain(before, inputs), tolerance)


def block(
    name: str, params: list[relay.Var], body: relay.Expr, *, nodes: str = "", **attrs: int
) -> relay.Function:
    """Return the primitive function that a block is written as."""
    func = relay.Function(params, body)
    for key, value in {"Primitive": 1, **attrs}.items():
        func = func.with_attr(key.replace("relay_", "relay."), tvm.tir.IntImm("int32", value))
    return func.with_attr("fusionx.block", name).with_attr("fusionx.nodes", nodes)


def _run(pass_: Any, before: tvm.IRModule) -> tvm.IRModule:
    """Run a pass once for its result, and once more on it."""
    text = before.astext()
    found = pass_(before)
    assert before.astext() == text, "the pass changed the module that it was given"
    tvm.ir.assert_structural_equal(pass_(found), found)
    return found
