"""The one place where the order of passes is written, and the build that follows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.build.backends import backend_of
from tvm_fusionx.build.phases import Phase, Phases, passes_of
from tvm_fusionx.build.product_times import ProductTimer
from tvm_fusionx.build.served_blocks import why_unserved
from tvm_fusionx.errors import ShapeError, TargetError
from tvm_fusionx.fusion import PlannerOptions
from tvm_fusionx.fusion.planner import GREEDY
from tvm_fusionx.fusion.profile_database import ProfileDatabase
from tvm_fusionx.late_passes.flush_denormals import FLUSH, Denormals, check_denormals
from tvm_fusionx.layout import BRAIN, HALF
from tvm_fusionx.measuring import BlockTimer, calibrated_costs, database_path
from tvm_fusionx.passes import (
    ComputeInFloat32,
    FuseByMapping,
    MultiplyBrains,
    MultiplyHalves,
    OutlineStatic,
    PackFloats,
    PackLayouts,
    PackSparse,
    PackTextures,
    ReuseSimilar,
    RewriteGraph,
    RewriteQuantized,
    SumInHalves,
    UnrollRecurrent,
)
from tvm_fusionx.passes.outline_static import decided_by_data
from tvm_fusionx.passes.pack_floats import HALF_SUMS
from tvm_fusionx.passes.sum_in_halves import cpu_of_halves
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.processors.gpu import VECTOR_LANES, is_gpu
from tvm_fusionx.processors.targets import TargetLike, is_cpu
from tvm_fusionx.rewrite import Rule
from tvm_fusionx.schedules import resolve_target


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
        Whether ties, and what a quantized layer takes on integers and on floats, are measured on
        this machine, with answers kept in the user's profile database or in the file that is given.
        This machine is calibrated first if it was not yet.
    allow, deny
        Names of operators, nodes or blocks: all that is fused, where there are any; what is not.

    Raises
    ------
    TargetError
        The target is unknown, or measuring is asked for and this machine is not the target.
    RecordError
        The profile database or the file of calibrated costs is damaged.
    """
    resolved = resolve_target(target)
    options = PlannerOptions(
        fuse=fuse,
        planner=planner,
        allow=frozenset(allow),
        deny=frozenset(deny),
        why_unserved=why_unserved(resolved),
    )
    if measure is False:
        return options
    check_runs_here(resolved)
    timer = BlockTimer(resolved, _database(measure))
    return replace(options, costs=calibrated_costs(resolved), measure=timer)


def _database(measure: bool | str | Path) -> ProfileDatabase:
    """Return the file of answers that a build may measure for."""
    return ProfileDatabase(database_path() if isinstance(measure, bool) else measure)


def check_runs_here(
    target: TargetLike,
    thing: str = "measuring",
    next_step: str = "Plan without measuring, or on a machine of that kind.",
) -> None:
    """Raise TargetError where what is built for `target` does not run on this machine."""
    resolved = resolve_target(target)
    if not is_cpu(resolved) or "mtriple" in resolved.attrs:
        raise TargetError(
            thing,
            expected="a target that this machine runs",
            found=str(resolved),
            next_step=next_step,
        )


def channels_at_once(target: TargetLike) -> int:
    """Return how many channels a target computes at once: the lanes of a vector."""
    resolved = resolve_target(target)
    return describe_cpu(resolved).lanes if is_cpu(resolved) else VECTOR_LANES


def phases(
    target: TargetLike,
    *,
    rules: Sequence[Rule] | None = None,
    precision: str | None = None,
    denormals: Denormals = FLUSH,
    fuse: bool = True,
    planner: str = GREEDY,
    measure: bool | str | Path = False,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
) -> Phases:
    """Return the order of passes as named phases, which can be taken apart.

    They are ``outline``, ``quantized``, ``rewrite``, ``layout``, ``fuse``, ``precision``,
    ``float32`` and ``textures``, those without passes for this target too; a backend of another
    package may have an order of its own.

    Parameters
    ----------
    target, rules, precision, denormals, fuse, planner, measure, allow, deny
        As for :func:`pipeline`.

    Returns
    -------
    phases
        ``phases(target).before("fuse", Phase("mine", (MyPass(),))).sequential("mine")`` is an order
        with a pass more.

    Raises
    ------
    TargetError, ValueError
        As for :func:`pipeline`.
    """
    check_denormals(denormals)
    resolved = resolve_target(target)
    options = planner_options(
        resolved, fuse=fuse, planner=planner, measure=measure, allow=allow, deny=deny
    )
    in_halves = precision == HALF_SUMS
    if in_halves:
        cpu_of_halves(resolved)
        precision = HALF
    usual: dict[str, list[Any]] = {
        # Where the data decides, what it does not: the passes behind see static functions only.
        "outline": [OutlineStatic(), *([] if is_cpu(resolved) else [UnrollRecurrent()])],
        # Quantized products before laws move their scales.
        "quantized": [RewriteQuantized(resolved)],
        # Laws first: they see the model's own operators.
        "rewrite": [
            RewriteGraph(rules=rules, denormals=denormals, chunk=channels_at_once(resolved))
        ],
        # Layouts and packed constants, while every operator still stands alone.
        "layout": [
            ReuseSimilar(resolved),
            PackSparse(resolved),
            PackLayouts(resolved, halves=in_halves, brains=precision == BRAIN),
        ],
        # Then blocks.
        "fuse": [FuseByMapping(resolved, options=options)],
        # Last what lies between them.
        "precision": [PackFloats(resolved, precision)] if precision else [],
        "float32": [
            ComputeInFloat32(resolved),
            MultiplyBrains(resolved),
            SumInHalves(resolved) if in_halves else MultiplyHalves(resolved),
        ],
        "textures": [PackTextures(resolved)] if is_gpu(resolved) else [],
    }
    order = Phases(tuple(Phase(name, tuple(passes)) for name, passes in usual.items()))
    if measure is not False:
        order = order.replaced(
            "quantized", Phase("quantized", (_measured(order, resolved, measure),))
        )
    backend = backend_of(resolved)
    return order if backend is None else backend.phases(order, resolved)


def _measured(order: Phases, target: Any, measure: bool | str | Path) -> RewriteQuantized:
    """Return the choice of integers by what layers take when the same order builds them."""

    def passes(chosen: RewriteQuantized) -> Any:
        built = order.replaced("quantized", Phase("quantized", (chosen,)))
        return built.sequential("tvm_fusionx.build.layer")

    return RewriteQuantized(target, ProductTimer(target, _database(measure), passes))


def pipeline(
    target: TargetLike,
    *,
    rules: Sequence[Rule] | None = None,
    precision: str | None = None,
    denormals: Denormals = FLUSH,
    fuse: bool = True,
    planner: str = GREEDY,
    measure: bool | str | Path = False,
    allow: Iterable[str] = (),
    deny: Iterable[str] = (),
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    without: Iterable[str] = (),
) -> tvm.transform.Sequential:
    """Return all passes, in order, from an imported module to one of blocks.

    Parameters
    ----------
    target
        Target string or object; ``-mcpu=native`` is this machine's.
    rules
        Rewriting rules to apply, all when None; without any, TVM's own simplifications are made all
        the same.
    precision
        ``"float16"`` or ``"bfloat16"``: keep weights, and what passes between blocks, in that type,
        and compute in float32. Rounds at every block: outputs differ by about 1e-3 of the largest,
        of bfloat16 by 1e-2. As the model has it when None; a model in float16 computes in float32.
        ``"float16-sums"``: as float16, and products are summed up in halves, a few at a time, on a
        core that adds halves (Arm since Armv8.2): :class:`tvm_fusionx.passes.SumInHalves`.
    denormals
        ``"flush"`` makes zeros of constants below the smallest normal number, as kernels of
        ``lowering(denormals="flush")`` take them; ``"keep"`` leaves them.
    fuse, planner, measure, allow, deny
        What the planner may do, as :func:`planner_options` tells.
    before, after
        For the name of a phase, a pass of yours or several that run right before or after it;
        :func:`phases` has the names.
    without
        Names of phases to leave out.

    Returns
    -------
    passes
        Works on any module whose parameters are bound as constants.

    Raises
    ------
    TargetError
        The target is unknown, or its kernels do not convert from that precision.
    PhaseError
        A phase is named that is not there, or what stands beside one is no pass.
    ValueError
        `denormals` is neither.
    """
    order = phases(
        target,
        rules=rules,
        precision=precision,
        denormals=denormals,
        fuse=fuse,
        planner=planner,
        measure=measure,
        allow=allow,
        deny=deny,
    )
    for name, added in (before or {}).items():
        order = order.before(name, Phase(f"before {name}", passes_of(added)))
    for name, added in (after or {}).items():
        order = order.after(name, Phase(f"after {name}", passes_of(added)))
    return order.without(*without).sequential("tvm_fusionx.build.pipeline")


def check_static(mod: Any) -> None:
    """Raise ShapeError where an input, or what an operator returns, has an unknown extent.

    Passes leave such a function as it is; the graph executor cannot run it, and TVM tells so in
    the middle of a build, of storage.
    """
    typed = relay.transform.InferType()(mod)
    main = typed["main"]
    for param in main.params:
        if _is_dynamic(param.checked_type):
            raise ShapeError(
                f"input {param.name_hint!r}",
                expected="an extent that is known for every axis",
                found=str(param.checked_type),
                next_step="Give its shape: fx.from_onnx(model, shape={...}), or a Relay type"
                " without Any.",
            )
    found = decided_by_data(typed)
    if found is not None:
        operator, node, kind = found
        raise ShapeError(
            f"operator {operator}" + (f" of node {node!r}" if node else ""),
            expected="a result whose shape does not depend on the data",
            found=kind,
            next_step="Compile it for TVM's virtual machine (executor='vm', --executor vm), or cut"
            " the model before it.",
        )


def _is_dynamic(kind: Any) -> bool:
    if isinstance(kind, tvm.ir.TupleType):
        return any(map(_is_dynamic, kind.fields))
    return isinstance(kind, tvm.ir.TensorType) and any(
        isinstance(extent, tvm.tir.Any) for extent in kind.shape
    )
