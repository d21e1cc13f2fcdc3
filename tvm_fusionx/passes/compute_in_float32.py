"""Compute in float32 what a model stores in 16 bits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.layout import compute_in_single, most_narrow_uses
from tvm_fusionx.passes.graph_pass import is_plain_function, returning
from tvm_fusionx.schedules import resolve_target


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.ComputeInFloat32")
@dataclass(frozen=True)
class ComputeInFloat32:
    """Let the blocks of a model in float16 or bfloat16 compute in float32.

    After :class:`FuseByMapping`, whose blocks it changes. Kernels convert while they load and
    store. Constants that a CPU multiplies again and again are widened once, here.

    Before::

        fn (%p0: float16, %p1: float16, Primitive=1) -> float16 { nn.matmul(%p0, %p1) }

    After::

        fn (%p0: float16, %p1: float16, Primitive=1) -> float16 {
          cast(nn.matmul(cast(%p0, float32), cast(%p1, float32)), float16)
        }
    """

    target: Any
    """What the blocks are for."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with blocks that compute in float32."""
        most_uses = most_narrow_uses(resolve_target(self.target))
        mod = relay.transform.InferType()(mod)
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        for variable, function in mod.functions.items():
            if is_plain_function(function):
                changed = compute_in_single(function, most_uses)
                out[variable] = returning(changed, function.ret_type)
        return relay.transform.InferType()(out)
