from __future__ import annotations

import numpy as np
import tvm
from tvm import relay

from tests.tiny_models import TARGET
from tvm_fusionx.report.bench.plain_tvm import build_plain, run_once
from tvm_fusionx.report.verify.defuse import expose_blocks


def _block(name: str, params: list[relay.Var], body: relay.Expr) -> relay.Function:
    function = relay.Function(params, body)
    for key, value in (("Primitive", 1), ("fusionx.block", name), ("fusionx.nodes", f"{name}_n")):
        function = function.with_attr(key, value)
    return function


def _fused() -> tvm.IRModule:
    """x -> (exp, split in two) -> add of the halves: a block of two outputs, and one of one."""
    p, q, r = (
        relay.var(name, shape=shape) for name, shape in (("p", (4,)), ("q", (2,)), ("r", (2,)))
    )
    halves = _block("exp_split", [p], relay.split(relay.exp(p), 2).astuple())
    total = _block("add", [q, r], relay.add(q, r))
    x = relay.var("x", shape=(4,))
    pair = relay.Call(halves, [x])
    out = relay.Call(total, [relay.TupleGetItem(pair, 0), relay.TupleGetItem(pair, 1)])
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], out)))


def test_every_block_is_inlined_and_its_tensors_are_returned_in_order() -> None:
    fused = _fused()
    before = fused.astext()
    exposed = expose_blocks(fused)
    assert fused.astext() == before
    assert "Primitive" not in exposed.module.astext()
    assert [(b.name, b.operators, b.first_output, b.number_of_outputs) for b in exposed.blocks] == [
        ("exp_split", ("exp_split_n",), 0, 2),
        ("add", ("add_n",), 2, 1),
    ]


def test_the_exposed_module_computes_what_the_blocks_compute() -> None:
    x = np.arange(4, dtype="float32")
    values = run_once(build_plain(expose_blocks(_fused()).module, TARGET, opt_level=0), {"x": x})
    first, second = np.exp(x[:2]), np.exp(x[2:])
    for value, wanted in zip(values, (first, second, first + second), strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)
