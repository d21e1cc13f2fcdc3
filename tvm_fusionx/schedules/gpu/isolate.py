"""Bring a block around one reduction into its steps: read with conditions, accumulate, write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tir

from tvm_fusionx.schedules.template import UnschedulableError
from tvm_fusionx.tir.block import BlockInfo, Stage, describe_block
from tvm_fusionx.tir.inline import inline_spatial
from tvm_fusionx.tir.inline_into_producer import inline_into_producer

REGISTERS = "local"

# Transcendental functions that a GPU of a phone evaluates while it starts a kernel: 20 us at some
# 500 GFLOP/s and ten operations each.
MOST_EVALUATIONS = 1 << 20


@dataclass(frozen=True)
class Isolated:
    """A block of two stages in the same axes, and what reads their operands with conditions."""

    func: Any
    info: BlockInfo
    reduce: Stage
    """Accumulates in registers; reads parameters, through whatever precedes it."""
    write: Stage
    """Applies what follows to the registers and stores the block's result."""
    reads: tuple[str, ...]
    """Stages that compute an operand behind conditions (padding), each for a tile at a time."""
    others: tuple[str, ...] = ()
    """Stages that compute an operand too expensive to compute again: kernels of their own."""


def isolate_reduction(sch: Any, info: BlockInfo) -> Isolated:
    """Inline what precedes and follows the only reduction of a block.

    Raises
    ------
    UnschedulableError
        Other stages are left: several reductions or results, or a result that cannot be written in
        the axes of the reduction.
    """
    guarded = _guarded_operands(info)
    info = inline_spatial(
        sch, info, keep_operands=False, keep=guarded, recompute=_is_cheap_again(info)
    )
    if len(info.reductions) != 1:
        raise UnschedulableError("it has not exactly one reduction")
    name = info.reductions[0].name
    write = sch.get(sch.cache_write(sch.get_block(name), 0, REGISTERS)).name_hint
    after = [each for each in info.stages if each in info.downstream(name)]
    for each in after:
        if not inline_into_producer(sch, each):
            raise UnschedulableError(f"{each} cannot be written in the reduction's axes")
    current = describe_block(sch.mod["main"], info.processor)
    rest = sorted(set(current.stages) - {name, write} - guarded)
    if not set(rest) <= current.upstream(name):
        raise UnschedulableError(f"it keeps other stages: {', '.join(rest)}")
    reads = tuple(each for each in current.stages if each in guarded)
    stages = current.stages
    return Isolated(
        sch.mod["main"], current, stages[name], stages[write], reads, others=tuple(rest)
    )


def _is_cheap_again(info: BlockInfo) -> bool:
    """Tell whether operands may be computed for each product, cheaper than by a kernel."""
    return all(
        stage.points * sum(info.stages[name].transcendentals for name in info.upstream(stage.name))
        <= MOST_EVALUATIONS
        for stage in info.reductions
    )


def _guarded_operands(info: BlockInfo) -> frozenset[str]:
    """Return the stages with conditions that a dot product reads, and nobody else.

    Inlined, the conditions would be written out for each product; computed into registers, once for
    each element of the tile.
    """
    return frozenset(
        producer
        for dot in info.dots
        for producer in info.producers[dot.name]
        if not info.stages[producer].is_reduction
        and info.consumers[producer] == (dot.name,)
        and producer not in info.outputs
        and has_guard(info.stages[producer].block.body)
    )


def has_guard(expr: Any, var: Any = None) -> bool:
    """Tell whether a body has conditions that OpenCL's vectors do not take.

    With `var`, along which vectors would run, a branch that all lanes take together is none.
    """
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        if isinstance(node, tir.Call) and node.op.name == "tir.if_then_else":
            condition = node.args[0]
            found |= var is None or any(
                var.same_as(each) for each in tir.analysis.undefined_vars(condition)
            )
        elif isinstance(node, tir.Select):
            found = True

    tir.stmt_functor.post_order_visit(expr, visit)
    return found or (var is None and _has_truth(expr)) or _stores_truth(expr)


def _has_truth(expr: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        found |= getattr(node, "dtype", "") == "bool"

    tir.stmt_functor.post_order_visit(expr, visit)
    return found


def _stores_truth(body: Any) -> bool:
    return isinstance(body, tir.BufferStore) and (
        body.buffer.dtype == "bool" or _casts_truth(body.value)
    )


def _casts_truth(expr: Any) -> bool:
    found = False

    def visit(node: Any) -> None:
        nonlocal found
        found |= isinstance(node, tir.Cast) and node.value.dtype == "bool"
        found |= isinstance(node, tir.BufferLoad) and node.dtype == "bool"

    tir.stmt_functor.post_order_visit(expr, visit)
    return found
