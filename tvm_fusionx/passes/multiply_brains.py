"""Multiply matrices of bfloat16 as they lie in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.layout import multiply_brains
from tvm_fusionx.passes.graph_pass import is_data_flow
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.MultiplyBrains")
@dataclass(frozen=True)
class MultiplyBrains:
    """Let an instruction multiply matrices of bfloat16, where the processor has one.

    After :class:`ComputeInFloat32`. Weights become bfloat16, in groups of as many as the
    instruction multiplies; sums stay float32. On other processors nothing changes.

    Before::

        fn (%p0: bfloat16, %p1: (32, 384, 12), Primitive=1) {
          nn.contrib_dense_pack(cast(%p0, float32), %p1, weight_layout="NC12n")
        }

    After::

        fn (%p0: bfloat16, %p1: bfloat16 (32, 96, 12, 4), Primitive=1) {
          nn.contrib_dense_pack(cast(%p0, float32), cast(%p1, float32), weight_layout="NC12n4c")
        }
    """

    target: Any
    """What the blocks are for; Arm's cores since Armv8.6 have such an instruction."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with products of bfloat16."""
        target = resolve_target(self.target)
        if not is_cpu(target) or describe_cpu(target).brain_dot is None:
            return mod
        cpu = describe_cpu(target)
        mod = relay.transform.InferType()(mod)
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        for variable, function in mod.functions.items():
            if is_data_flow(function):
                out[variable] = multiply_brains(function, cpu)
        return relay.transform.InferType()(out)
