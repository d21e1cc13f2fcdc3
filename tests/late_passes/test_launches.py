from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay, tir

import tvm_fusionx as fx
from tests.relay_modules import const, module, var
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.errors import TargetError
from tvm_fusionx.late_passes.launches import Launches, Operand, launches_of
from tvm_fusionx.schedules.lowering_log import LoweringLog

PACKED, EXTERN = "tir.tvm_call_packed_lowered", "tir.call_extern"


@pytest.fixture(scope="module", name="log")
def fixture_log() -> LoweringLog:
    x = var("x", 4, 50)
    largest = relay.argmax(relay.exp(x) * relay.sum(x), axis=0)
    rows = relay.nn.softmax(relay.nn.dense(x, const(50, 50)))
    other = relay.nn.softmax(relay.nn.dense(rows, const(50, 50, seed=1)))
    built = fx.build(module(largest, other), "opencl")
    log: LoweringLog = getattr(built, BUILT_FROM)[1]
    return log


def _found(log: LoweringLog) -> dict[str, Launches]:
    return {symbol: launches_of(symbol, log.hosts, log.devices) for symbol in log.hosts}


def test_every_stage_of_a_block_is_a_launch_and_hands_memory_on(log: LoweringLog) -> None:
    (argmax,) = (each for name, each in _found(log).items() if "argmax" in name)
    assert len(argmax.launches) > 1
    assert all(size > 0 for size in argmax.workspaces)
    first, *_, last = argmax.launches
    own = {each.number for each in first.operands if each.is_workspace}
    assert own
    assert Operand(2) in last.operands
    for launch in argmax.launches:
        assert min(*launch.groups, *launch.items) >= 1
        assert launch.kernel in log.devices


def test_an_equal_block_launches_what_the_first_does(log: LoweringLog) -> None:
    own, other = (each for name, each in _found(log).items() if "softmax" in name)
    assert own == other
    (kernel,) = {launch.kernel for launch in (*own.launches, *other.launches)}
    assert kernel in log.devices


def _host(body: Any) -> dict[str, Any]:
    names = ("args", "codes", "count", "result", "result_code", "handle")
    return {"host": tir.PrimFunc([tir.Var(name, "handle") for name in names], body)}


def _call(name: str, *args: Any) -> Any:
    return tir.Evaluate(tir.Call("int32", tvm.ir.Op.get(name), args))


CALLED = _call(
    PACKED, tir.StringImm("sorted"), tir.Var("s", "handle"), tir.Var("c", "handle"), 0, 0
)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (CALLED, "a call of sorted"),
        (tir.For(tir.Var("i", "int32"), 0, 3, tir.ForKind.SERIAL, CALLED), "kind For"),
        (tir.IfThenElse(tir.Var("n", "int32") > 0, CALLED, None), "that a condition decides"),
        (_call(EXTERN, tir.StringImm("f")), "a call of tir.call_extern"),
    ],
)
def test_what_is_more_than_launches_is_refused(body: Any, found: str) -> None:
    with pytest.raises(TargetError, match=found):
        launches_of("host", _host(body), {})


def test_a_function_that_is_not_there_is_named() -> None:
    with pytest.raises(TargetError, match=r"kernel lost: .* found no function of this build"):
        launches_of("lost", {}, {})
