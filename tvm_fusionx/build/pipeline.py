"""The one place where the order of passes is written, and the build that follows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from tvm import relay
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.errors import ModelError, ShapeError, TargetError
from tvm_fusionx.fusion import PlannerOptions
from tvm_fusionx.fusion.planner import GREEDY
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.late_passes.flush_denormals import FLUSH, Denormals, check_denormals
from tvm_fusionx.lowering import lowering
from tvm_fusionx.measuring import BlockTimer, calibrated_costs, database_path
from tvm_fusionx.passes import (
    FuseByMapping,
    PackFloat16,
    PackLayouts,
    PackTextures,
    RewriteGraph,
    RewriteQuantized,
)
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.gpu import VECTOR_LANES, is_gpu
from tvm_fusionx.processors.targets import TargetLike, is_cpu
from tvm_fusionx.rewrite import Rule
from tvm_fusionx.schedules import resolve_target

# Attribute of what `build` returns: its blocks, whose constants are the library's own, and the log
# of their lowering.
BUILT_FROM = "fusionx_built_from"


def planner_options(
    target: TargetLike,
    *,
    fuse: bool = True,
    planner: str = GREEDY,
    measure: bool | str | Path = False,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> PlannerOptions:
    """Return what the planner may do.

    Parameters
    ----------
    target
        Target string or object.
    fuse
        Whether to fuse; without, every operator is its own block: the control that tells what
        fusion brings from what the templates bring.
    planner
        ``"greedy"``, or ``"optimal"``: the fastest cover by legal blocks that a solver finds.
    measure
        Whether ties are measured on this machine, with answers kept in the user's profile database
        or in the file that is given. This machine is calibrated first if it was not yet.
    allow, deny
        Names of operators, nodes or blocks: all that is fused, where there are any; what is not.

    Raises
    ------
    TargetError
        The target is unknown, or measuring is asked for and this machine is not the target.
    RecordError
        The profile database or the file of calibrated costs is damaged.
    """
    options = PlannerOptions(
        fuse=fuse, planner=planner, allow=frozenset(allow), deny=frozenset(deny)
    )
    if measure is False:
        return options
    resolved = resolve_target(target)
    check_runs_here(resolved)
    database = ProfileDatabase(database_path() if measure is True else measure)
    return replace(
        options, costs=calibrated_costs(resolved), measure=BlockTimer(resolved, database)
    )


def check_runs_here(target: TargetLike) -> None:
    """Raise TargetError where what is built for `target` cannot be measured on this machine."""
    resolved = resolve_target(target)
    if not is_cpu(resolved) or "mtriple" in resolved.attrs:
        raise TargetError(
            "measuring",
            expected="a target that this machine runs",
            found=str(resolved),
            next_step="Plan without measuring, or on a machine of that kind.",
        )


def channels_at_once(target: TargetLike) -> int:
    """Return how many channels a target computes at once: the lanes of a vector."""
    resolved = resolve_target(target)
    return describe_cpu(resolved).lanes if is_cpu(resolved) else VECTOR_LANES


def pipeline(
    target: TargetLike,
    *,
    rules: Sequence[Rule] | None = None,
    float16: bool = False,
    denormals: Denormals = FLUSH,
    fuse: bool = True,
    planner: str = GREEDY,
    measure: bool | str | Path = False,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> tvm.transform.Sequential:
    """Return all passes, in order, from an imported module to one of blocks.

    Parameters
    ----------
    target
        Target string or object; ``-mcpu=native`` is this machine's.
    rules
        Rewriting rules to apply, all when None; without any, TVM's own simplifications are made all
        the same.
    float16
        Keep weights, and what passes between blocks, as float16, and compute in float32: for OpenCL
        targets. Rounds at every block: outputs differ by about 1e-3 of the largest.
    denormals
        ``"flush"`` makes zeros of constants below the smallest normal number, as kernels of
        ``lowering(denormals="flush")`` take them; ``"keep"`` leaves them.
    fuse, planner, measure, allow, deny
        What the planner may do, as :func:`planner_options` tells.

    Returns
    -------
    passes
        Works on any module whose parameters are bound as constants.

    Raises
    ------
    TargetError
        The target is unknown, or float16 is asked for and the target is not OpenCL.
    ValueError
        `denormals` is neither.
    """
    check_denormals(denormals)
    resolved = resolve_target(target)
    options = planner_options(
        resolved, fuse=fuse, planner=planner, measure=measure, allow=allow, deny=deny
    )
    return tvm.transform.Sequential(
        [
            # Quantized products before laws move their scales.
            RewriteQuantized(resolved),
            # Laws first: they see the model's own operators.
            RewriteGraph(rules=rules, denormals=denormals, chunk=channels_at_once(resolved)),
            # Layouts and packed constants, while every operator still stands alone.
            PackLayouts(resolved),
            # Then blocks.
            FuseByMapping(resolved, options=options),
            # Last what lies between them.
            *([PackFloat16(resolved)] if float16 else []),
            *([PackTextures(resolved)] if is_gpu(resolved) else []),
        ],
        name="tvm_fusionx.build.pipeline",
    )


@interruptible()
def build(
    mod: tvm.IRModule,
    target: TargetLike,
    params: Mapping[str, Any] | None = None,
    records: str | Path | None = None,
    activation_images: bool = False,
    device: str | None = None,
    *,
    rules: Sequence[Rule] | None = None,
    float16: bool = False,
    denormals: Denormals = FLUSH,
    fuse: bool = True,
    planner: str = GREEDY,
    measure: bool | str | Path = False,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> GraphExecutorFactoryModule:
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
        Tuning records: a file or directory; templates' defaults when None. How many blocks they
        cover, and what share of the time, is logged in one line.
    activation_images
        For OpenCL: whether tensors between kernels are images where both sides take whole pixels.
    device
        What `records` name the device that will run the model by: its records count before those of
        others. This machine by default, where it is of the target's kind.
    rules, float16
        Rewriting rules to apply, all when None; whether to keep what passes between blocks as
        float16, for OpenCL. See :func:`pipeline`.
    denormals
        What numbers below the smallest normal one (1.2e-38 of float32) are: ``"flush"`` takes them
        for zero, in constants and in every kernel on a CPU, for many CPUs are many times slower
        with them; the caller's floating-point settings stay. ``"keep"`` computes with them.
    fuse
        Whether to fuse; without, every operator is its own block, as a control.
    planner
        ``"greedy"``, or ``"optimal"``: the fastest cover by legal blocks that a solver finds.
    measure
        Whether ties are measured on this machine; or the file that keeps the answers.
    allow, deny
        Names of operators, nodes or blocks: all that is fused, where there are any; what is not.

    Returns
    -------
    lib : tvm.relay.backend.executor_factory.GraphExecutorFactoryModule
        As from ``relay.build``; :func:`tvm_fusionx.profile` knows its kernels' templates, too.

    Raises
    ------
    ModelError, ShapeError, TargetError, RecordError
        `mod` is no Relay module; a shape in it is not known; the target is unknown; the records are
        not for it.
    """
    bound = bind_parameters(mod, params)
    check_static(bound)
    passes = pipeline(
        target,
        rules=rules,
        float16=float16,
        denormals=denormals,
        fuse=fuse,
        planner=planner,
        measure=measure,
        allow=allow,
        deny=deny,
    )
    blocks = passes(bound)
    with lowering(target, records, device, activation_images, denormals) as log:
        library = relay.build(blocks, resolve_target(target))
    setattr(library, BUILT_FROM, (blocks, log))
    return library


def check_static(mod: Any) -> None:
    """Raise ShapeError where an input, or what an operator returns, has an unknown extent.

    Passes leave such a function as it is; the graph executor cannot run it, and TVM tells so in
    the middle of a build, of storage.
    """
    main = relay.transform.InferType()(mod)["main"]
    for param in main.params:
        if _is_dynamic(param.checked_type):
            raise ShapeError(
                f"input {param.name_hint!r}",
                expected="an extent that is known for every axis",
                found=str(param.checked_type),
                next_step="Give its shape: fx.from_onnx(model, shape={...}), or a Relay type"
                " without Any.",
            )
    for expr in post_order(main.body):
        if isinstance(expr, relay.Call) and _is_dynamic(expr.checked_type):
            raise ShapeError(
                f"operator {getattr(expr.op, 'name', 'of a function')}",
                expected="a result whose shape does not depend on the data",
                found=str(expr.checked_type),
                next_step="Cut the model before it, or compile it for TVM's own relay.vm.",
            )


def _is_dynamic(kind: Any) -> bool:
    if isinstance(kind, tvm.ir.TupleType):
        return any(map(_is_dynamic, kind.fields))
    return isinstance(kind, tvm.ir.TensorType) and any(
        isinstance(extent, tvm.tir.Any) for extent in kind.shape
    )


def check_module(mod: Any) -> None:
    """Raise ModelError where `mod` is no Relay module: a path, say, or what an importer returns."""
    if not isinstance(mod, tvm.IRModule):
        raise ModelError(
            "mod",
            expected="a Relay module",
            found=type(mod).__name__,
            next_step="Import the model first: mod, params = tvm_fusionx.from_onnx(model).",
        )


def bind_parameters(mod: Any, params: Mapping[str, Any] | None) -> Any:
    """Return the module with `params` as constants of ``main``."""
    check_module(mod)
    if not params:
        return mod
    out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
    out["main"] = relay.build_module.bind_params_by_name(mod["main"], dict(params))
    return out
