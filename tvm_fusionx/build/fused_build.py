"""Build a model, and keep the fused module and what lowering chose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx._tvm.interrupts import interruptible
from tvm_fusionx._tvm.quick_calls import quick_calls
from tvm_fusionx.build.kernels import BLOCK_ATTRIBUTE, KernelGraph, KernelNote
from tvm_fusionx.build.parameters import bind_parameters
from tvm_fusionx.build.pipeline import check_static, pipeline
from tvm_fusionx.build.settled_passes import without_settled_passes
from tvm_fusionx.ecg import NotAGraphError, from_relay
from tvm_fusionx.ecg.block_calls import is_block_call, post_order
from tvm_fusionx.ecg.flops import flops as node_flops
from tvm_fusionx.late_passes.flush_denormals import FLUSH, Denormals
from tvm_fusionx.lowering import lowering
from tvm_fusionx.records import Record
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.block_work import Work, work_of
from tvm_fusionx.schedules.lowering_log import LoweredBlock

# Attribute of what ``fx.build`` returns: its blocks, whose constants are the library's own, and the
# log of their lowering.
BUILT_FROM = "fusionx_built_from"

# TVM's own name of a library, which the symbols of its kernels begin with.
DEFAULT_NAME = "default"


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


@interruptible()
@quick_calls()
def build_fused(
    mod: tvm.IRModule,
    target: str | tvm.target.Target,
    params: Mapping[str, Any] | None = None,
    records: str | Path | Mapping[str, Record] | None = None,
    device: str | None = None,
    on_stage: Callable[[str], None] = lambda stage: None,
    name: str = DEFAULT_NAME,
    denormals: Denormals = FLUSH,
    **choices: Any,
) -> FusedBuild:
    """Fuse and build `mod` as ``fx.build`` does.

    Parameters
    ----------
    device
        The device whose records go before those of others; see ``fx.build``.
    on_stage
        Told what is being done, in words; what is counted as ``N of M``.
    name
        What the symbols of its kernels begin with: libraries that are linked together differ in it.
    denormals
        Whether kernels ``"flush"`` denormal numbers or ``"keep"`` them; see ``fx.build``.
    **choices
        Of :func:`tvm_fusionx.build.pipeline.pipeline`; ``fuse=False`` puts every operator in a
        block of its own: same lowering, same templates, no fusion.
    """
    resolved = resolve_target(target)
    bound = bind_parameters(mod, params)
    check_static(bound)
    on_stage("planning")
    fused = pipeline(resolved, denormals=denormals, **choices)(bound)
    blocks = sum(map(is_block_call, post_order(fused["main"].body)))
    scope = lowering(resolved, records, device, denormals=denormals, keep_code=True)
    with without_settled_passes(fused), scope as log:
        log.on_entry = lambda: on_stage(
            f"scheduling kernel {min(len(log.entries), blocks)} of {blocks}"
        )
        log.on_lowered = lambda done, count: on_stage(f"lowering kernel {done} of {count}")
        log.on_code = lambda: on_stage(f"making code of {len(log.entries)} kernels")
        library = relay.build(fused, target=resolved, mod_name=name)
    return FusedBuild(relay.transform.InferType()(fused), library, log)


@quick_calls()
def kernel_notes(build: FusedBuild) -> tuple[KernelNote, ...]:
    """Return what is known about each kernel of `build`, in execution order."""
    entries = {entry.name: entry for entry in build.log.entries}
    flops: dict[str, int | None] = {}
    # Layers of a model are equal blocks; of two with one hash a wrong one would misreport a speed.
    of_equal: dict[int, int | None] = {}
    for expr in post_order(build.module["main"].body):
        if is_block_call(expr):
            name = str(expr.op.attrs.get(BLOCK_ATTRIBUTE, ""))
            unnamed = relay.Function(expr.op.params, expr.op.body)
            digest = tvm.ir.structural_hash(unnamed)
            if digest not in of_equal:
                of_equal[digest] = _flops(expr.op)
            flops[name] = of_equal[digest]
    counted: dict[str, Work] = {}
    notes = []
    for node in KernelGraph.from_json(build.library.get_graph_json()).kernels:
        note = KernelNote(node.name, node.operators, flops=flops.get(node.name) or None)
        entry = entries.get(node.function)
        if entry is not None:
            work = work_of_entry(entry, counted)
            note = replace(note, template=entry.template, is_tuned=entry.is_tuned, work=work)
        notes.append(note)
    return tuple(notes)


def notes_of(library: Any) -> tuple[KernelNote, ...]:
    """Return what is known about each kernel of what ``fx.build`` returned; of others nothing."""
    if not hasattr(library, BUILT_FROM):
        return ()
    blocks, log = getattr(library, BUILT_FROM)
    return kernel_notes(FusedBuild(relay.transform.InferType()(blocks), library, log))


def work_of_entry(entry: LoweredBlock, counted: dict[str, Work]) -> Work | None:
    """Return the work of a block, counted once for all that are equal; None for TVM's schedules."""
    key = entry.key
    if key is None:
        return None
    if key not in counted:
        counted[key] = work_of(entry.source)
    return counted[key]


def _flops(function: relay.Function) -> int | None:
    try:
        return sum(map(node_flops, from_relay(function).calls()))
    except NotAGraphError:
        return None
