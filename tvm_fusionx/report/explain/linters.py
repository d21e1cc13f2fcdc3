"""Look through a plan for what a person should see: each linter is one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tvm_fusionx.ecg.graph import Node
from tvm_fusionx.fusion import Plan
from tvm_fusionx.operators import COMMUTATIVE, MappingType, mapping_type_of
from tvm_fusionx.report.explain.drawing import kernels_of
from tvm_fusionx.report.explain.entries import BlockEntry, EdgeEntry, Finding
from tvm_fusionx.report.explain.explanation import Report

# What only moves elements and could have been an index of a neighbour's.
DATA_MOVEMENT = (MappingType.SHUFFLE, MappingType.REORGANIZE)
DEFAULT_TEMPLATES = ("default", "topi")
SLOW_TYPES = frozenset(["float64"])


def find_oddities(report: Report) -> tuple[Finding, ...]:
    """Return what stands out in a report: kernels that only move data, and default schedules."""
    neighbours = _neighbours(report.edges)
    kernels = len(kernels_of(report.blocks))
    moving = [
        block.name
        for block in report.blocks
        if block.mapping_type in {kind.value for kind in DATA_MOVEMENT}
        and not block.is_reshape_only
        and all(neighbours.get(block.name, (set(), set())))
    ]
    opaque = [
        block.name for block in report.blocks if block.mapping_type == MappingType.OPAQUE.value
    ]
    found = (
        ("transpose-between-blocks", moving, "only move data between two other kernels"),
        ("opaque-operator", opaque, "have an operator whose access pattern is unknown"),
        ("default-schedule", _fallen(report.blocks), "fell back to a default schedule"),
    )
    return tuple(
        Finding(kind, f"{len(names)} of {kernels} blocks {what}", tuple(names))
        for kind, names, what in found
        if names
    )


def _fallen(blocks: Iterable[BlockEntry]) -> list[str]:
    return [block.name for block in blocks if block.template in DEFAULT_TEMPLATES]


def lint_plan(plan: Plan) -> tuple[Finding, ...]:
    """Return what stands out in a plan's graph: work that rewriting or the model could spare."""
    home = {node: block.name for block in plan.blocks for node in block.nodes}
    found = []
    for kind, sentence, applies in LINTERS:
        nodes = [node for node in home if applies(node)]
        if nodes:
            example = plan.labels.get(nodes[0], nodes[0].op)
            blocks = tuple(dict.fromkeys(home[node] for node in nodes))
            message = f"{len(nodes)} {sentence}; the first is {example}"
            found.append(Finding(kind, message, blocks))
    return tuple(found)


def undoes_a_transpose(node: Node) -> bool:
    """Tell whether a transpose undoes one before it, with only elementwise calls between."""
    if node.op != "transpose":
        return False
    axes = _axes(node)
    above = node.operands[0].node
    while above.is_call:
        if above.op == "transpose":
            return tuple(_axes(above)[axis] for axis in axes) == tuple(range(len(axes)))
        moving = [value for value in above.operands if value.type.elements > 1]
        is_plain = mapping_type_of(above.op) is MappingType.ONE_TO_ONE
        if not is_plain or len(moving) != 1 or moving[0].shape != above.outputs[0].shape:
            return False
        above = moving[0].node
    return False


def is_constant_work(node: Node) -> bool:
    """Tell whether a call reads constants alone, so that it computes the same on every run."""
    return bool(node.operands) and all(value.is_constant for value in node.operands)


def is_slow_type(node: Node) -> bool:
    """Tell whether a call computes in a type of half the speed or less."""
    return any(output.dtype in SLOW_TYPES for output in node.outputs)


def changes_nothing(node: Node) -> bool:
    """Tell whether a call adds zero, multiplies by one, or casts to the type it has."""
    if node.op == "cast":
        return node.operands[0].dtype == node.outputs[0].dtype
    neutral = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}.get(node.op)
    if neutral is None:
        return False
    sides = (0, 1) if node.op in COMMUTATIVE else (1,)
    return any(
        node.operands[side].is_constant
        and node.operands[1 - side].shape == node.outputs[0].shape
        and bool((node.operands[side].array == neutral).all())
        for side in sides
    )


LINTERS: tuple[tuple[str, str, Callable[[Node], bool]], ...] = (
    (
        "transpose-pair",
        "transposes undo one before them and were not eliminated",
        undoes_a_transpose,
    ),
    ("constant-at-run-time", "calls read constants alone and run every time", is_constant_work),
    ("slow-type", "calls compute in float64, at half the speed of float32", is_slow_type),
    ("no-effect", "calls change nothing", changes_nothing),
)


def _axes(node: Node) -> tuple[int, ...]:
    rank = len(node.operands[0].shape)
    axes = node.attrs.get("axes") or tuple(reversed(range(rank)))
    return tuple(int(axis) % rank for axis in axes)


def _neighbours(edges: Iterable[EdgeEntry]) -> Mapping[str, tuple[set[str], set[str]]]:
    """Return the producers and the consumers of each block."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for edge in edges:
        if edge.producer_block != edge.consumer_block:
            found.setdefault(edge.consumer_block, (set(), set()))[0].add(edge.producer_block)
            found.setdefault(edge.producer_block, (set(), set()))[1].add(edge.consumer_block)
    return found
