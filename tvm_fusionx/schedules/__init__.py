"""Schedules: one fused block in, one scheduled kernel out.

:func:`schedule` tries an ordered list of templates; the first that serves a block and does not
fail on it wins. `docs/design/templates.md` tells how they work.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tir

from tvm_fusionx.processors.cpu import Cpu, describe_cpu
from tvm_fusionx.processors.gpu import OPENCL, Gpu, describe_gpu
from tvm_fusionx.processors.targets import is_cpu, resolve_target, target_key
from tvm_fusionx.schedules.attention.cached import CACHED_ATTENTION
from tvm_fusionx.schedules.attention.streamed import STREAMED_ATTENTION
from tvm_fusionx.schedules.byte_tiles.template import BYTE_TILES
from tvm_fusionx.schedules.channel_pools.template import CHANNEL_POOL
from tvm_fusionx.schedules.converted_apart import converted_apart
from tvm_fusionx.schedules.default import DEFAULT
from tvm_fusionx.schedules.gpu.templates import GPU_TEMPLATES
from tvm_fusionx.schedules.packed.bytes_template import PACKED_BYTES
from tvm_fusionx.schedules.packed.template import PACKED
from tvm_fusionx.schedules.products.dot import DOT, DOT_IN_HALVES
from tvm_fusionx.schedules.recurrent.template import RECURRENT
from tvm_fusionx.schedules.reuse.template import REUSE
from tvm_fusionx.schedules.rows.moves import MOVES
from tvm_fusionx.schedules.rows.template import ROWS
from tvm_fusionx.schedules.sparse.filters import SPARSE_FILTERS
from tvm_fusionx.schedules.sparse.template import SPARSE
from tvm_fusionx.schedules.template import (
    Knob,
    Match,
    Refusal,
    Scheduled,
    Template,
    UnschedulableError,
)
from tvm_fusionx.schedules.windows.along_frames import ALONG_FRAMES
from tvm_fusionx.schedules.windows.channelwise import DEPTHWISE, DEPTHWISE_IN_HALVES, POOL
from tvm_fusionx.schedules.windows.dense import CONV2D
from tvm_fusionx.schedules.windows.dense_in_halves import CONV2D_IN_HALVES
from tvm_fusionx.schedules.windows.depthwise_pointwise import (
    DEPTHWISE_POINTWISE,
    DEPTHWISE_POINTWISE_IN_HALVES,
)
from tvm_fusionx.schedules.windows.dilated import DILATED
from tvm_fusionx.schedules.windows.first_layer import FIRST_LAYER, FIRST_LAYER_IN_HALVES
from tvm_fusionx.schedules.windows.joined_chunks import JOINED_CHUNKS
from tvm_fusionx.schedules.windows.pointwise import POINTWISE, POINTWISE_IN_HALVES
from tvm_fusionx.schedules.windows.pointwise_few_outputs import POINTWISE_FEW_OUTPUTS
from tvm_fusionx.schedules.winograd.template import WINOGRAD
from tvm_fusionx.tir.block import BlockInfo, describe_block
from tvm_fusionx.tir.fresh_schedule import fresh_schedule
from tvm_fusionx.tir.half_terms import Mark, told, without_marks
from tvm_fusionx.tir.narrow_copies import with_narrow_copies
from tvm_fusionx.tir.nested_remainders import keep_nested_remainders
from tvm_fusionx.tir.stored_types import as_single, in_memory

__all__ = [
    "ADDED_FAMILIES",
    "ALL_TEMPLATES",
    "CPU_TEMPLATES",
    "FAMILIES",
    "GPU_TEMPLATES",
    "BlockInfo",
    "Family",
    "Knob",
    "Match",
    "Refusal",
    "Scheduled",
    "Template",
    "UnschedulableError",
    "describe_block",
    "describe_cpu",
    "describe_gpu",
    "describe_processor",
    "family_of",
    "resolve_target",
    "schedule",
    "target_key",
    "template_named",
]

logger = logging.getLogger(__name__)

# Tried in this order: the most specialised first, the one that serves everything last.
CPU_TEMPLATES: tuple[Template, ...] = (
    WINOGRAD,
    DEPTHWISE_POINTWISE,
    BYTE_TILES,
    FIRST_LAYER,
    POINTWISE_FEW_OUTPUTS,
    POINTWISE,
    ALONG_FRAMES,
    DILATED,
    JOINED_CHUNKS,
    CONV2D,
    DEPTHWISE,
    POOL,
    CHANNEL_POOL,
    STREAMED_ATTENTION,
    CACHED_ATTENTION,
    PACKED_BYTES,
    PACKED,
    SPARSE,
    SPARSE_FILTERS,
    RECURRENT,
    REUSE,
    DOT,
    MOVES,
    ROWS,
    DEFAULT,
)

# Sum up in halves, where a block may be.
IN_HALVES = (
    DEPTHWISE_POINTWISE_IN_HALVES,
    FIRST_LAYER_IN_HALVES,
    POINTWISE_IN_HALVES,
    CONV2D_IN_HALVES,
    DEPTHWISE_IN_HALVES,
    DOT_IN_HALVES,
)

# Read an operand for each of their tiles, and take what a stage before them computes.
_CONVERT_APART = (DOT.name, POINTWISE.name, FIRST_LAYER.name)

ALL_TEMPLATES = (*CPU_TEMPLATES, *GPU_TEMPLATES)


@dataclass(frozen=True)
class Family:
    """How one kind of target is served."""

    describe: Callable[[tvm.target.Target], Cpu | Gpu]
    """Says what the target offers."""

    templates: tuple[Template, ...]
    """Tried in this order."""


# By the kind of the target, TVM's word.
FAMILIES: dict[str, Family] = {
    "llvm": Family(describe_cpu, CPU_TEMPLATES),
    OPENCL: Family(describe_gpu, GPU_TEMPLATES),
}

# By the name of a backend: what tells whether a target is its, and how such a target is served.
ADDED_FAMILIES: dict[str, tuple[Callable[[tvm.target.Target], bool], Family]] = {}

UNSCHEDULED = "unscheduled"


def family_of(target: tvm.target.Target) -> Family | None:
    """Return how `target` is served: by a backend that was added, or as others of its kind."""
    added = (family for serves, family in ADDED_FAMILIES.values() if serves(target))
    return next(added, FAMILIES.get(str(target.kind.name)))


def describe_processor(target: tvm.target.Target) -> Cpu | Gpu:
    """Return what `target` offers to a schedule; `ValueError` where no template serves its kind."""
    family = family_of(target)
    if family is None:
        raise ValueError(f"target: expected a kind of {list(FAMILIES)}; found {target.kind.name}.")
    return family.describe(target)


def template_named(name: str) -> Template:
    """Return the template called `name`; `ValueError` when there is none."""
    added = (each for _, family in ADDED_FAMILIES.values() for each in family.templates)
    for template in (*ALL_TEMPLATES, *added):
        if template.name == name:
            return template
    raise ValueError(
        f"template: expected one of {[each.name for each in ALL_TEMPLATES]}; found {name!r}."
    )


def schedule(
    func: tir.PrimFunc,
    target: tvm.target.Target,
    knobs: Mapping[str, int] | None = None,
    template: str | None = None,
) -> Scheduled:
    """Schedule a block for a target.

    Parameters
    ----------
    func
        The block as unscheduled TensorIR, indices simplified.
    target
        What the kernel is compiled for.
    knobs
        Values for knobs of the template that is used; the others, and those whose value is none of
        its choices, keep their defaults.
    template
        Name of the template to try first, in front of the usual order.

    Returns
    -------
    Scheduled
        Never fails: a block that no template can schedule comes back as it was, with the reason.
    """
    family = family_of(target)
    if family is None:
        return Scheduled(
            func, UNSCHEDULED, {}, f"no template serves target kind {target.kind.name}"
        )

    def scheduled(block: tir.PrimFunc) -> Scheduled:
        return _scheduled(block, target, family, knobs, template)

    if is_cpu(target):
        func, mark = without_marks(func)
        cpu = family.describe(target)
        if mark.terms and isinstance(cpu, Cpu) and cpu.adds_halves:
            found = _in_halves(func, mark, target, cpu, knobs)
            if found is not None:
                return found
        for stores_apart in (False, True):
            found = _in_single(func, stores_apart, scheduled, family.describe(target))
            if found is not None:
                return found
    return scheduled(func)


def _in_single(
    func: tir.PrimFunc,
    stores_apart: bool,
    scheduled: Callable[[tir.PrimFunc], Scheduled],
    processor: Cpu | Gpu,
) -> Scheduled | None:
    """Schedule a block in half precision as one of float32; None where it is none, or sums up."""
    single = as_single(func, stores_apart=stores_apart)
    if single is None:
        return None
    found = scheduled(single.func)
    info = describe_block(single.func, processor)
    if found.template in _CONVERT_APART:
        apart = converted_apart(single, info)
        other = as_single(func, stores_apart=stores_apart, converted=apart) if apart else None
        if other is not None and (again := scheduled(other.func)).template == found.template:
            single, found = other, again
    kernel = in_memory(found.func, single.stored)
    if kernel is not None and any(each.sums_matrices for each in info.stages.values()):
        kernel = with_narrow_copies(kernel)
    return None if kernel is None else replace(found, func=kernel)


def _in_halves(
    func: tir.PrimFunc,
    mark: Mark,
    target: tvm.target.Target,
    cpu: Cpu,
    knobs: Mapping[str, int] | None,
) -> Scheduled | None:
    """Schedule a block whose sums are of halves, as `mark` allows; None where none serves.

    A template sees a processor whose vectors have twice the lanes.
    """
    single = as_single(func)
    if single is None:
        return None
    wide = replace(cpu, lanes=2 * cpu.lanes)
    block = told(single.func, mark, single.stored)
    found = _scheduled(block, target, Family(lambda _: wide, IN_HALVES), knobs, None)
    kernel = None if found.template == UNSCHEDULED else in_memory(found.func, single.stored)
    return None if kernel is None else replace(found, func=kernel)


def _scheduled(
    func: tir.PrimFunc,
    target: tvm.target.Target,
    family: Family,
    knobs: Mapping[str, int] | None,
    template: str | None,
) -> Scheduled:
    info = describe_block(func, family.describe(target))
    candidates = family.templates
    if template is not None:
        first = [each for each in candidates if each is template_named(template)]
        candidates = (*first, *candidates)
    failures: list[str] = []
    refusals: list[Refusal] = []
    for candidate in candidates:
        try:
            match = candidate.match(info)
            if isinstance(match, str):
                refusals.append(Refusal(candidate.name, match))
                continue
            kernel, values = _emit(candidate.name, match, dict(knobs or {}), failures)
        except Exception as error:  # A template's fault must not stop a build: the next one serves.
            reason = _first_line(error)
            logger.info("template failed: %s: %s", candidate.name, reason, exc_info=True)
            failures.append(f"{candidate.name}: {reason}")
            refusals.append(Refusal(candidate.name, reason))
            continue
        why = "; ".join(failures) or None
        return Scheduled(kernel, candidate.name, values, why, tuple(refusals))
    kept = keep_nested_remainders(func)
    return Scheduled(kept, UNSCHEDULED, {}, "; ".join(failures), tuple(refusals))


def _emit(
    template: str, match: Match, wanted: dict[str, int], failures: list[str]
) -> tuple[Any, dict[str, int]]:
    values = {}
    for name, knob in match.knobs().items():
        values[name] = value = wanted.get(name, knob.default)
        # A value of an edited or older record may make a kernel that writes anywhere.
        if value not in (knob.default, *knob.choices):
            values[name] = knob.default
            failures.append(f"{template}: {name} is {knob.default}, as {value} is no choice")
    scheduled = match.emit(values)
    # TVM makes a schedule of the kernel once more, which fails on bounds it cannot tell.
    fresh_schedule(scheduled)
    return keep_nested_remainders(scheduled), values


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
