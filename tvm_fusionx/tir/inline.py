"""Inline what is cheap to recompute, and keep what is not."""

from __future__ import annotations

from typing import Any

from tvm import tir

from tvm_fusionx.tir.block import BlockInfo, Stage, describe_block
from tvm_fusionx.tir.index_maps import needs_panels

# Expression nodes after which an inlined body is cut into stages: bounds compile time, which grows
# with the product of the number of times each stage is read along a chain.
MAX_INLINED_NODES = 400


def inline_spatial(
    sch: Any,
    info: BlockInfo,
    *,
    keep_operands: bool = True,
    recompute: bool = False,
    keep: frozenset[str] = frozenset(),
) -> BlockInfo:
    """Inline every spatial stage whose recomputation is cheap; return the block as it is then.

    With `keep_operands`, what computes or gathers a dot product's operand is kept as well. With
    `recompute`, transcendental functions of a broadcast value may be evaluated for each reader, and
    gathered values gathered. Stages named in `keep` stay.

    A stage is kept when it writes an output, when its readers would evaluate its transcendental
    functions or gather its values more often than it does itself, or when the inlined expression
    would grow too large.
    """
    sizes: dict[str, int] = {}
    dear: dict[str, int] = {}
    reads: dict[str, dict[str, int]] = {}
    kept: set[str] = set()
    finishing: set[str] = set()
    computing: set[str] = set()
    for name, stage in info.stages.items():
        sizes[name], dear[name] = stage.nodes, stage.expensive
        reads[name] = _reads_by_producer(info, stage)
        for producer, count in reads[name].items():
            if producer not in kept:
                sizes[name] += count * sizes[producer]
                dear[name] += count * dear[producer]
        if _finishes_a_dot(info, name, finishing - kept):
            finishing.add(name)
        if not _only_moves(stage) or any(each in computing - kept for each in reads[name]):
            computing.add(name)
        if (
            name in keep
            or why_not_inline(info, stage, 0 if recompute else dear[name], sizes[name]) is not None
            or (
                keep_operands
                and why_not_inline_around_dot(info, stage, name in finishing, name in computing)
                is not None
            )
        ):
            kept.add(name)
            sizes[name] = dear[name] = 0
            continue
        try:
            sch.compute_inline(sch.get_block(name))
        except tir.ScheduleError:
            kept.add(name)
            sizes[name] = dear[name] = 0
    return describe_block(sch.mod["main"], info.processor)


def _reads_by_producer(info: BlockInfo, stage: Stage) -> dict[str, int]:
    counts: dict[str, int] = {}
    for producer in info.producers[stage.name]:
        for buffer in info.stages[producer].writes:
            counts[producer] = counts.get(producer, 0) + stage.read_counts[buffer.data]
    return counts


def why_not_inline(info: BlockInfo, stage: Stage, dear: int, nodes: int) -> str | None:
    """Return why `stage` should keep its own loop nest, or None when it should be inlined.

    `dear` is what is expensive in it, with what was inlined into it (:attr:`Stage.expensive`).
    """
    if stage.is_reduction:
        return "it accumulates"
    if stage.name in info.outputs:
        return "it writes an output"
    readers = [info.stages[name] for name in info.consumers[stage.name]]
    if len(stage.writes) != 1 or not readers:
        return "it does not write exactly one tensor that is read"
    evaluations = sum(
        reader.points * reader.read_counts[stage.writes[0].data] for reader in readers
    )
    loads = sum(reader.read_counts[stage.writes[0].data] for reader in readers)
    if dear and evaluations > stage.points:
        return "its expensive functions or gathers would be evaluated more than once a point"
    if (
        evaluations > stage.points
        and not _only_moves(stage)
        and str(stage.writes[0].dtype).startswith("float")
        and any(stage.writes[0].data in reader.gathered for reader in readers)
    ):
        return "neighbours at computed places would each compute it anew"
    if nodes * loads > MAX_INLINED_NODES and loads > 1:
        return "the inlined expression would be too large"
    return None


def _finishes_a_dot(info: BlockInfo, name: str, finishing: set[str]) -> bool:
    return any(
        info.stages[producer].is_dot or producer in finishing for producer in info.producers[name]
    )


def why_not_inline_around_dot(
    info: BlockInfo, stage: Stage, finishes_a_dot: bool, computes: bool
) -> str | None:
    """Return why a stage before or after a dot product should stay, or None.

    `computes` tells whether the stage, with what was inlined into it, does more than move data.
    """
    readers = info.consumers[stage.name]
    if finishes_a_dot and len(readers) > 1:
        return "several stages read the dot product it finishes"
    dots = [info.stages[name] for name in readers if info.stages[name].is_dot]
    if dots and computes:
        return "a dot product would compute it once for every row or column"
    written = [buffer.data for buffer in stage.writes]
    if any(data in written for data in map(needs_panels, dots) if data is not None):
        return "a dot product reads it in panels of columns"
    return None


def _only_moves(stage: Stage) -> bool:
    body = stage.block.body
    return isinstance(body, tir.BufferStore) and isinstance(body.value, tir.BufferLoad)
