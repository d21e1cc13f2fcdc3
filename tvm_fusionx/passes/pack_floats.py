"""Store what lies between blocks in 16 bits, and compute in float32."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.errors import TargetError
from tvm_fusionx.layout import BRAIN, HALF, most_narrow_uses, store_narrow
from tvm_fusionx.passes.graph_pass import is_data_flow
from tvm_fusionx.processors.gpu import is_gpu
from tvm_fusionx.processors.targets import is_cpu
from tvm_fusionx.schedules import resolve_target

PRECISIONS = (HALF, BRAIN)

# Stored as halves, and products of halves summed up in halves; of a build, not of this pass.
HALF_SUMS = "float16-sums"


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.PackFloats")
@dataclass(frozen=True)
class PackFloats:
    """Keep weights, and what passes between blocks, in 16 bits; compute in float32.

    After :class:`FuseByMapping`, whose blocks it changes. Inputs and outputs stay float32.

    Before::

        %0 = fn (%p0, Primitive=1) { nn.relu(%p0) }(%x);
        fn (%p0, %p1, Primitive=1) { nn.matmul(%p0, %p1) }(%0, %w)

    After::

        %0 = fn (%p0, Primitive=1) { cast(clip(nn.relu(%p0)), float16) }(%x);
        fn (%p0: float16, %p1: float16, Primitive=1) {
          nn.matmul(cast(%p0, float32), cast(%p1, float32))
        }(%0, %w as float16)
    """

    target: Any
    """What the blocks are for: a CPU or OpenCL, whose kernels convert while they load and store."""

    dtype: str = HALF
    """``"float16"``; for CPUs ``"bfloat16"`` too."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with 16 bits between blocks.

        Raises
        ------
        TargetError
            Kernels for the target do not convert from that type.
        """
        target = resolve_target(self.target)
        check_precision(self.dtype, target)
        mod = relay.transform.InferType()(mod)
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        most_uses = most_narrow_uses(target)
        for variable, function in mod.functions.items():
            if is_data_flow(function):
                out[variable] = store_narrow(function, self.dtype, most_uses)
        return relay.transform.InferType()(out)


def check_precision(dtype: str, target: Any) -> None:
    """Raise TargetError where kernels for `target` do not convert from `dtype`."""
    known = [*([HALF] if is_gpu(target) else []), *(PRECISIONS if is_cpu(target) else [])]
    if dtype not in known:
        raise TargetError(
            "precision",
            expected=f"of {', '.join(known) or 'none'}, which kernels for {target} convert",
            found=repr(dtype),
            next_step="Leave precision out, or build for a CPU or for opencl.",
        )
