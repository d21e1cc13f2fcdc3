from __future__ import annotations

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.ir.instrument import pass_instrument

import tvm_fusionx as fx
from tvm_fusionx.build.settled_passes import PASSES_WITH_NOTHING_LEFT, without_settled_passes
from tvm_fusionx.schedules import resolve_target


@pass_instrument
class _Names:
    """Notes the passes that run."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def run_before_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        self.names.add(info.name)


def _module() -> tvm.IRModule:
    x = relay.var("x", shape=(1, 4, 8, 8))
    weights = relay.const(np.ones((4, 4, 3, 3), "float32"))
    body = relay.nn.relu(relay.nn.conv2d(x, weights, padding=(1, 1)))
    return tvm.IRModule.from_expr(relay.Function([x], relay.nn.max_pool2d(body, (2, 2))))


def test_they_do_not_run_where_all_operators_stand_in_blocks() -> None:
    names = _Names()
    with tvm.transform.PassContext(opt_level=3, instruments=[names]):
        library = fx.build(_module(), "llvm")
    # The pipeline runs some of them itself, first.
    assert "Legalize" not in names.names
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.set_input("x", np.ones((1, 4, 8, 8), "float32"))
    executor.run()
    assert executor.get_output(0).numpy()[0, 0, 1, 1] == 36


def test_they_run_where_an_operator_stands_outside() -> None:
    names = _Names()
    target = resolve_target("llvm")
    with tvm.transform.PassContext(opt_level=3, instruments=[names]), fx.lowering(target):
        relay.build(_module(), target)
    assert names.names >= {"Legalize", "SimplifyInference", "CanonicalizeOps"}


def test_all_of_them_are_passes_of_tvm() -> None:
    names = _Names()
    disabled = ["AlterOpLayout"]
    with tvm.transform.PassContext(opt_level=4, disabled_pass=disabled, instruments=[names]):
        relay.build(_module(), "llvm")
    assert set(PASSES_WITH_NOTHING_LEFT) <= names.names


def test_what_the_context_leaves_out_stays_left_out() -> None:
    blocks = fx.pipeline("llvm")(_module())
    with (
        tvm.transform.PassContext(opt_level=2, disabled_pass=["FuseOps"]),
        without_settled_passes(blocks),
    ):
        context = tvm.transform.PassContext.current()
        assert set(context.disabled_pass) == {"FuseOps", *PASSES_WITH_NOTHING_LEFT}
        assert context.opt_level == 2


def test_a_module_of_operators_keeps_all() -> None:
    with without_settled_passes(_module()):
        assert not list(tvm.transform.PassContext.current().disabled_pass)
