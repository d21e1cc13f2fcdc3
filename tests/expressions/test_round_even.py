from __future__ import annotations

import numpy as np
import tvm
from tvm import relay
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
