from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay, te, tir
from tvm.contrib import graph_executor

from tests.relay_modules import var
from tvm_fusionx.expressions.round_even import ROUND_EVEN, register_rounding


def test_halves_go_to_the_even_number() -> None:
    register_rounding()
    register_rounding()
    x = var("x", 9)
    function = relay.Function([x], relay.Call(relay.op.get(ROUND_EVEN), [x]))
    library = relay.build(tvm.IRModule.from_expr(function), "llvm")
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    numbers = np.array([-2.5, -1.5, -0.5, -0.4, 0.0, 0.5, 1.5, 2.5, 1e9], "float32")
    executor.set_input("x", numbers)
    executor.run()
    assert np.array_equal(executor.get_output(0).numpy(), np.rint(numbers))


def test_loops_of_roundings_become_vectors() -> None:
    register_rounding()
    x = te.placeholder((8,), "float32")
    y = te.compute((8,), lambda i: tir.nearbyint(x[i] * 3.0).astype("int8"), name="y")
    schedule = tir.Schedule(te.create_prim_func([x, y]))
    schedule.vectorize(schedule.get_loops(schedule.get_block("y"))[0])
    found: list[Any] = []
    body = tvm.lower(schedule.mod)["main"].body
    tir.stmt_functor.post_order_visit(body, found.append)
    # TVM writes a loop over what it takes for scalar, and leaves it to LLVM.
    assert not any(isinstance(node, tir.For) for node in found)
    assert any(isinstance(node, tir.Ramp) for node in found)
