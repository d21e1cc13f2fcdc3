"""The one place where the order of passes is written, and the build that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.lowering import lowering
from tvm_fusionx.passes import FuseByMapping, PackLayouts, RewriteGraph
from tvm_fusionx.schedules import resolve_target


def pipeline(target: Any, *, fuse: bool = True) -> tvm.transform.Sequential:
    """Return all passes, in order, from an imported module to one of blocks.

    Parameters
    ----------
    target
        Target string or object; ``-mcpu=native`` is this machine's.
    fuse
        Whether to fuse; without, every operator is its own block: the control that tells what
        fusion brings from what the templates bring.

    Returns
    -------
    passes
        Works on any module whose parameters are bound as constants.

    Raises
    ------
    TargetError
        The target is unknown.
    """
    resolved = resolve_target(target)
    return tvm.transform.Sequential(
        [
            # Laws first: they see the model's own operators.
            RewriteGraph(),
            # Layouts and packed constants, while every operator still stands alone.
            PackLayouts(resolved),
            # Then blocks.
            FuseByMapping(resolved, fuse=fuse),
        ],
        name="tvm_fusionx.pipeline",
    )


def build(
    mod: Any,
    target: Any,
    params: Mapping[str, Any] | None = None,
    records: str | Path | None = None,
    *,
    fuse: bool = True,
) -> Any:
    """Compile a module to a graph-executor library.

    Parameters
    ----------
    mod
        Relay module, as from :func:`tvm_fusionx.from_onnx`; not changed.
    target
        Target string or object.
    params
        Values of parameters that are not bound in the module yet.
    records
        Tuning records: a file or directory; templates' defaults when None.
    fuse
        See :func:`pipeline`.

    Returns
    -------
    lib : tvm.relay.backend.executor_factory.GraphExecutorFactoryModule
        As from ``relay.build``.

    Raises
    ------
    TargetError, RecordError
        The target is unknown, or the records are not for it.
    """
    bound = bind_parameters(mod, params)
    blocks = pipeline(target, fuse=fuse)(bound)
    with lowering(target, records):
        return relay.build(blocks, resolve_target(target))


def bind_parameters(mod: Any, params: Mapping[str, Any] | None) -> Any:
    """Return the module with `params` as constants of ``main``."""
    if not params:
        return mod
    out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
    out["main"] = relay.build_module.bind_params_by_name(mod["main"], dict(params))
    return out
