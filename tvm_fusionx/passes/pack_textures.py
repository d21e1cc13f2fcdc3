"""Let weights of blocks be images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.layout import prepare_textures
from tvm_fusionx.passes.graph_pass import is_data_flow
from tvm_fusionx.processors.gpu import describe_gpu, is_gpu
from tvm_fusionx.schedules import resolve_target


@tvm.transform.module_pass(opt_level=0, name="tvm_fusionx.PackTextures")
@dataclass(frozen=True)
class PackTextures:
    """Give weights the shape of an image, and the constants of blocks names that tell them.

    After the blocks are made; a template then may read them through ``image2d_t``.

    Before::

        fn (%p0, %p1: [64, 12], Primitive=1) { nn.matmul(%p0, %p1) }(%x, %w)

    After::

        fn (%p0, %constant1: [64, 3, 4], Primitive=1) {
          nn.matmul(%p0, reshape(%constant1, [64, 12]))
        }(%x, %w in pixels)
    """

    target: Any
    """What the blocks are for; one without textures keeps what it has."""

    def transform_module(self, mod: Any, ctx: Any) -> Any:
        """Return the module with weights that may be images."""
        target = resolve_target(self.target)
        if not is_gpu(target) or not describe_gpu(target).has_textures:
            return mod
        mod = relay.transform.InferType()(mod)
        out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
        for variable, function in mod.functions.items():
            if is_data_flow(function):
                out[variable] = prepare_textures(function, describe_gpu(target))
        return relay.transform.InferType()(out)
