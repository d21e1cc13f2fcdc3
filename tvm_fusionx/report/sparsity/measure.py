"""One layer dense and sparse, compiled alone and timed in turns on this machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay
from tvm.contrib import graph_executor

from tvm_fusionx.ecg.relay_attributes import to_attrs
from tvm_fusionx.layout.blocked_convolution import DENSE_BLOCKED
from tvm_fusionx.layout.sparse import Choice
from tvm_fusionx.lowering import lowering
from tvm_fusionx.passes import FuseByMapping, PackLayouts, PackSparse
from tvm_fusionx.report.bench.timing import time_interleaved

REPEAT = 30
# Of a millisecond.
MICRO = 1e3


def measure_layer(choice: Choice, target: Any) -> tuple[float, float]:
    """Return the median microseconds of a layer, dense and sparse.

    Parameters
    ----------
    choice
        The layer, with the weight that it shall have.
    target
        This machine.
    """
    mod = module_of(choice)
    sides = {
        "dense": _compiled(mod, target, [PackLayouts(target)]),
        "sparse": _compiled(mod, target, [PackSparse(target, least_gain=0), PackLayouts(target)]),
    }
    times, failed = time_interleaved({name: side.run for name, side in sides.items()}, REPEAT)
    if failed:
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in failed.items()))
    dense, sparse = (times[name].median * MICRO for name in sides)
    return dense, sparse


def module_of(choice: Choice) -> Any:
    """Return a module of the layer alone: its data comes in, its weight is a constant."""
    layer, node = choice.layer, choice.layer.node
    data = node.operands[0]
    weight = layer.matrix
    if node.op == DENSE_BLOCKED:
        outputs, inputs, rows, columns, inner, outer = node.operands[1].shape
        apart = weight.reshape(outputs, outer, inputs, rows, columns, inner)
        weight = np.ascontiguousarray(apart.transpose(0, 2, 3, 4, 5, 1))
        x = relay.var("x", shape=data.shape, dtype=data.dtype)
        operator, attrs = relay.op.get(node.op), to_attrs(node.op, node.attrs)
        body = relay.Call(operator, [x, relay.const(weight)], attrs)
    else:
        x = relay.var("x", shape=(layer.places, weight.shape[1]), dtype=data.dtype)
        body = relay.nn.dense(x, relay.const(np.ascontiguousarray(weight)))
    return relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], body)))


def _compiled(mod: Any, target: Any, passes: list[Any]) -> Any:
    planned = tvm.transform.Sequential([*passes, FuseByMapping(target)])(mod)
    with lowering(target):
        library = relay.build(planned, target=target)
    model = graph_executor.GraphModule(library["default"](tvm.cpu()))
    shape = [int(each) for each in mod["main"].params[0].checked_type.shape]
    model.set_input("x", np.random.default_rng(0).standard_normal(shape).astype("float32"))
    return model
