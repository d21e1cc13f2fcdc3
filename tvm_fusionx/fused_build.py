"""Build a model and keep what the build went through: the fused module and the choices of lowering."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm import relay
from tvm.relay.build_module import bind_params_by_name

from tvm_fusionx.lowering import lowering
from tvm_fusionx.pipeline import pipeline
from tvm_fusionx.schedules import resolve_target


@dataclass(frozen=True)
class FusedBuild:
    """A built library and the module it was built from.

    Attributes
    ----------
    module
        The module after ``fx.pipeline``: every operator of ``main`` in a block.
    library
        The graph-executor factory module.
    log
        Which template served each kernel (``LoweringLog``).
    """

    module: tvm.IRModule
    library: Any
    log: Any


def build_fused(
    mod: tvm.IRModule,
    target: str | tvm.target.Target,
    params: Mapping[str, Any] | None = None,
    records: str | Path | None = None,
    fuse: bool = True,
) -> FusedBuild:
    """Fuse and build `mod` as ``fx.build`` does.

    Parameters
    ----------
    fuse
        False puts every operator in a block of its own: same lowering, same templates, no fusion.
    """
    resolved = resolve_target(target)
    if params:
        mod = tvm.IRModule.from_expr(bind_params_by_name(mod["main"], dict(params)))
    with tvm.transform.PassContext(opt_level=tvm.transform.PassContext.current().opt_level):
        fused = pipeline(resolved, fuse=fuse)(mod)
    with lowering(resolved, records) as log:
        library = relay.build(fused, target=resolved)
    return FusedBuild(relay.transform.InferType()(fused), library, log)
