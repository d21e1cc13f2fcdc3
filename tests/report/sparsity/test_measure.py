"""A layer alone: the module that is timed computes what the layer does."""

from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import graph, operator_names, var
from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.layout import pack_convolutions
from tvm_fusionx.layout.sparse import judge, layer_of
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.report.sparsity.measure import measure_layer, module_of
from tvm_fusionx.schedules import resolve_target

NATIVE = "llvm -mcpu=native"


@pytest.mark.parametrize("is_window", [False, True])
def test_the_weight_comes_back_and_both_run(is_window: bool) -> None:
    weight = pruned(32, 32, 16, 0.3)
    body = (
        relay.nn.conv2d(
            var("x", 1, 32, 4, 4),
            relay.const(weight.reshape(32, 32, 1, 1)),
            kernel_size=(1, 1),
            channels=32,
        )
        if is_window
        else relay.nn.dense(var("x", 4, 32), relay.const(weight))
    )
    target = resolve_target(NATIVE)
    cpu = describe_cpu(target)
    found = graph(body)
    pack_convolutions(found, cpu)
    (node,) = (each for each in found.calls() if each.op.startswith("nn."))
    choice = judge(layer_of(node, cpu), cpu)
    mod = module_of(choice)
    (again,) = graph(mod["main"].body).calls()
    assert operator_names(mod["main"]) == [node.op]
    assert (again.operands[1].array == node.operands[1].array).all()
    assert all(time > 0 for time in measure_layer(choice, target))
