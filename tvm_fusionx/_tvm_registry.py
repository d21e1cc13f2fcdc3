"""Operators of our own in TVM's registry: each a touch of what TVM's Python does not offer.

What is registered stays for the life of the process; a second time changes nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import tvm

# `tvm::tir::CallEffectKind::kPure`.
PURE = 1

# Operators of this level are TVM's rarely used ones.
LEAST_SUPPORT = 10

# Threads that compile at once come to register the same.
_REGISTERING = threading.Lock()


def register_pure_intrinsic(name: str) -> None:
    """Make `name` an operation of TIR that has no effect and works on vectors; idempotent.

    TVM registers operations from C++ only; the function behind that is not public.
    """
    with _REGISTERING:
        if name in tvm.ir.Op.list_op_names():
            return
        tvm.ir._ffi_api.RegisterOp(name, name)
        tvm.ir.register_op_attr(name, "TVectorizable", True)
        tvm.ir.register_op_attr(name, "TCallEffectKind", tvm.tir.IntImm("int32", PURE))


def register_elementwise_operator(name: str, compute: Callable[[Any], Any]) -> None:
    """Make `name` a Relay operator that computes each element from one; idempotent.

    As for :func:`register_pure_intrinsic`, Python's way to make a whole operator is not public.
    """
    from tvm import te
    from tvm.relay.op import op as registry

    with _REGISTERING:
        if name in tvm.ir.Op.list_op_names():
            return
        tvm.ir._ffi_api.RegisterOp(name, name)
        operator = tvm.ir.Op.get(name)
        operator.set_num_inputs(1)
        operator.add_argument("data", "Tensor", "The elements.")
        operator.set_support_level(LEAST_SUPPORT)
        operator.add_type_rel("Identity")
        registry.register_pattern(name, registry.OpPattern.ELEMWISE)
        registry.register_stateful(name, False)
        registry.register_compute(
            name,
            lambda attrs, inputs, out: [
                te.compute(inputs[0].shape, lambda *place: compute(inputs[0](*place)))
            ],
        )
        registry.register_broadcast_schedule(name)
