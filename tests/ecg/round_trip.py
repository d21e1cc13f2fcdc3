"""The law of the graph's two doors: there and back is the same function, up to shared calls."""

from __future__ import annotations

import tvm
from tvm import relay

from tvm_fusionx.ecg import from_relay, to_relay


def back(mod: tvm.IRModule) -> tvm.IRModule:
    """Return the module whose ``main`` went to a graph and back."""
    func = to_relay(from_relay(mod["main"]))
    return relay.transform.InferType()(tvm.IRModule.from_expr(func))


def assert_round_trip(mod: tvm.IRModule) -> None:
    """Check that ``main`` comes back as it was, apart from equal calls now being one."""
    shared = relay.transform.InferType()(relay.transform.EliminateCommonSubexpr()(mod))
    tvm.ir.assert_structural_equal(back(mod)["main"], shared["main"])
