"""Equal kernels are compiled once and still have a symbol each."""

from __future__ import annotations

import re

import tvm
from tvm import relay

from tests.relay_modules import EXACT, TARGET, assert_close, inputs_of, module, run_plain, var
from tvm_fusionx.lowering import lowering
from tvm_fusionx.report.plain_tvm import run_once
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
