"""Store what lies between blocks as float16, and compute in float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.errors import TargetError
from tvm_fusionx.layout import store_float16
from tvm_fusionx.passes.graph_pass import is_plain_function
from tvm_fusionx.processors.gpu import is_gpu
from tvm_fusionx.schedules import resolve_target


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.PackFloat16")
@dataclass(frozen=True)
class PackFloat16:
    """Keep weights, and what passes between blocks, as float16; compute in float32.

    After :class:`FuseByMapping`, whose blocks it changes. Inputs and outputs stay float32.

    Before::

        %0 = fn (%p0, Primitive=1) { nn.relu(%p0) }(%x);
        fn (%p0, %p1, Primitive=1) { nn.matmul(%p0, %p1) }(%0, %w)

    After::

        %0 = fn (%p0, Primitive=1) { cast(nn.relu(%p0), float16) }(%x);
        fn (%p0: float16, %p1: float16, Primitive=1) {
          nn.matmul(cast(%p0, float32), cast(%p1, float32))
        }(%0, %w as float16)
    """

    target: Any
    """What the blocks are for: OpenCL, whose kernels convert while they load and store."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with float16 between blocks.

        Raises
        ------
        TargetError
            The target is not OpenCL.
        """
        target = resolve_target(self.target)
        if not is_gpu(target):
            raise TargetError(
                "float16",
                expected="an OpenCL target",
                found=str(target),
                next_step="Leave float16 out, or build for opencl.",
            )
        mod = relay.transform.InferType()(mod)
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        for variable, function in mod.functions.items():
            if is_plain_function(function):
                out[variable] = store_float16(function)
        return relay.transform.InferType()(out)
