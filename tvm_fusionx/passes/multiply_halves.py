"""Multiply halves as they lie in memory, and sum up in float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.layout import multiply_halves
from tvm_fusionx.passes.graph_pass import is_data_flow
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.MultiplyHalves")
@dataclass(frozen=True)
class MultiplyHalves:
    """Let windows over halves that keep channels apart multiply halves, where a processor does.

    After :class:`ComputeInFloat32`. Weights become halves; sums stay float32, and are the same
    numbers. On other processors nothing changes.

    Before::

        fn (%p0: float16, %p1, Primitive=1) {
          nn.contrib_depthwise_conv2d_NCHWc(cast(%p0, float32), %p1)
        }

    After::

        fn (%p0: float16, %p1: float16, Primitive=1) {
          nn.contrib_depthwise_conv2d_NCHWc(cast(%p0, float32), cast(%p1, float32))
        }
    """

    target: Any
    """What the blocks are for; Arm's cores since Armv8.4 have such an instruction (FEAT_FHM)."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with products of halves."""
        target = resolve_target(self.target)
        if not is_cpu(target) or not describe_cpu(target).multiplies_halves:
            return mod
        cpu = describe_cpu(target)
        mod = relay.transform.InferType()(mod)
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        for variable, function in mod.functions.items():
            if is_data_flow(function):
                out[variable] = multiply_halves(function, cpu)
        return relay.transform.InferType()(out)
