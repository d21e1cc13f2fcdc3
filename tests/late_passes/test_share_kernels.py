"""Equal kernels are compiled once and still have a symbol each."""

from __future__ import annotations

import re

import tvm
from tvm import relay, tir

from tests.relay_modules import EXACT, TARGET, assert_close, inputs_of, module, run_plain, var
from tvm_fusionx.late_passes.share_kernels import call_shared_kernels, share_device_kernels
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules import resolve_target


def _block(name: str, *arguments: relay.Expr) -> relay.Call:
    """Return a call of a block that a name keeps apart from its equals."""
    left, right = var("left", 4, 8), var("right", 4, 8)
    function = relay.Function([left, right], relay.nn.relu(left - right))
    function = function.with_attr({"Primitive": tvm.tir.IntImm("int32", 1), "fusionx.block": name})
    return relay.Call(function, list(arguments))


def test_repeated_layers_share_one_body() -> None:
    x, y = var("x", 4, 8), var("y", 4, 8)
    mod = module(_block("third", _block("second", _block("first", x, y), x), y), params=[x, y])
    target = resolve_target(TARGET)
    with lowering(target) as log:
        library = relay.build(mod, target)
    names = [entry.name for entry in log.entries]
    assert len(set(names)) == 3
    assembly = library.get_lib().get_source("ll")
    assert all(f"@{name}(" in assembly for name in names)
    passing_on = re.findall(rf"call .*i32 @(?:{'|'.join(names)})\(", assembly)
    assert len(passing_on) == 2
    inputs = inputs_of(mod)
    plain = relay.transform.DefuseOps()(mod)
    assert_close(run_once(library, inputs), run_plain(plain, inputs), EXACT)


def _device_function(symbol: str, factor: float) -> tir.PrimFunc:
    x = tir.decl_buffer((4,), "float32", "x")
    body = tir.BufferStore(x, x[0] * tir.const(factor, "float32"), [0])
    return tir.PrimFunc([x.data], body).with_attr("global_symbol", symbol)


def test_equal_device_kernels_are_left_out_and_their_callers_renamed() -> None:
    kernels = {"a": 2.0, "b": 2.0, "c": 3.0}
    mod = tvm.IRModule({name: _device_function(name, each) for name, each in kernels.items()})
    kept, names = share_device_kernels(mod)
    left = {variable.name_hint for variable in kept.functions}
    assert len(left) == 2
    assert "c" in left
    assert set(names) | left == set(kernels)
    assert set(names.values()) < left

    (gone,) = names
    call = tir.call_packed(gone, 1)
    host = tvm.IRModule({"host": tir.PrimFunc([], tir.Evaluate(call))})
    renamed = call_shared_kernels(host, names)["host"].body.value.args[0]
    assert renamed.value == names[gone]
    assert call_shared_kernels(host, {}) is host
