"""Placeholders give way to kernels, equal ones lowered once."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import relay

from tests.late_passes.test_lower_kernel import CPU, block, plain
from tests.relay_modules import module, var
from tvm_fusionx.late_passes import deferred_kernels
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.late_passes.deferred_kernels import NO_CODE, NUMBER, DeferredKernels
from tvm_fusionx.late_passes.lower_kernel import lower_kernel
from tvm_fusionx.lowering import lowering


def silent(done: int, count: int) -> None:
    """Hear nothing."""


def test_the_first_of_equal_blocks_has_the_code_and_others_call_it() -> None:
    deferred = DeferredKernels(CPU)
    one, other = block(2), block(3)
    blocks = {"a": one, "b": one, "c": other}
    with pass_context(CPU, "flush"):
        functions = {
            name: lower_kernel(deferred.placeholder(func), CPU, name)
            for name, func in blocks.items()
        }
        mod = tvm.IRModule(functions)
        filled, names = deferred.fill(mod, silent)
        (first,) = names.values()
        again = lower_kernel(one, CPU, first)
    by_name = {str(variable.name_hint): func for variable, func in filled.functions.items()}
    assert set(by_name) == set(blocks)
    (passes_on,) = names
    assert {passes_on, first} == {"a", "b"}
    assert f'"{first}"' in by_name[passes_on].script()
    assert tvm.ir.structural_equal(plain(by_name[first]), plain(again))
    for name, func in by_name.items():
        assert str(func.attrs["global_symbol"]) == name
        assert NUMBER not in func.attrs
        assert NO_CODE not in func.script()


def test_a_build_lowers_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[int] = []
    original = deferred_kernels.lower_kernels

    def counting(blocks: Any, target: Any, on_progress: Any) -> Any:
        lowered.append(len(blocks))
        return original(blocks, target, on_progress)

    monkeypatch.setattr(deferred_kernels, "lower_kernels", counting)
    x = var("x", 4, 8)
    value: Any = x
    for name in ("first", "second", "third"):
        own = var("own", 4, 8)
        function = relay.Function([own], relay.tanh(own))
        attributes = {"Primitive": tvm.tir.IntImm("int32", 1), "fusionx.block": name}
        value = relay.Call(function.with_attr(attributes), [value])
    told: list[tuple[int, int]] = []
    with lowering(CPU) as log:
        log.on_lowered = lambda done, count: told.append((done, count))
        relay.build(module(value, params=[x]), CPU)
    assert len(log.entries) == 3
    assert lowered == [1]
    assert told == [(1, 1)]


def test_a_placeholder_left_in_its_place_does_not_run() -> None:
    with pass_context(CPU, "flush"):
        func = DeferredKernels(CPU).placeholder(block(2))
        built = tvm.build(func, target=CPU, name="kernel")
    assert NO_CODE in built.get_source("ll")
