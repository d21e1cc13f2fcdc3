"""A name for a block's structure: equal for blocks that become the same kernel."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from tvm_fusionx.ecg.graph import Node, Value
from tvm_fusionx.ecg.to_relay import is_inline_constant
from tvm_fusionx.fusion.border import Border
from tvm_fusionx.fusion.plan import Plan
from tvm_fusionx.operators import STEERING_OPERANDS

# Of SHA-256's 64 digits: a birthday among a billion blocks has a chance of 1e-20.
DIGITS = 32


def block_key(nodes: Sequence[Node], border: Border) -> str:
    """Return the structural hash of a block: operators, attributes, shapes, dtypes, wiring.

    Names do not count, nor do the values of constants that the kernel takes as arguments; those
    of constants that are written into the kernel do, and those that say how long its loops run.

    Parameters
    ----------
    nodes
        Its calls, operands before users.
    border
        What it reads and gives.
    """
    place = {node: number for number, node in enumerate(nodes)}
    seen: dict[Value, int] = {}
    calls = [
        [
            node.op,
            _plain(node.attrs),
            str(node.payload) if node.payload is not None else "",
            list(node.grouping),
            [_operand(value, place, seen) for value in node.operands],
            *[_digest_of(value) for value in steering_constants(node)],
            [str(output) for output in node.outputs],
        ]
        for node in nodes
    ]
    outputs = sorted([place[value.node], value.index] for value in border.outputs)
    text = json.dumps([calls, outputs], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def steering_constants(node: Node) -> list[Value]:
    """Return the constants among a call's operands whose values say how long it takes."""
    position = STEERING_OPERANDS.get(node.op)
    if position is None or not node.operands[position].is_constant:
        return []
    return [node.operands[position]]


def block_keys(plan: Plan) -> list[str]:
    """Return the structural hash of each block of a plan, in order."""
    home = {node: block for block in plan.blocks for node in block.nodes}
    left = set(plan.outputs)
    for consumer, block in home.items():
        left.update(value for value in consumer.operands if home.get(value.node) is not block)
    keys = []
    for block in plan.blocks:
        members = set(block.nodes)
        read = (value for node in block.nodes for value in node.operands)
        outside = {value for value in read if value.node not in members}
        made = tuple(value for node in block.nodes for value in node if value in left)
        border = Border(
            frozenset(value for value in outside if not is_inline_constant(value)), made
        )
        keys.append(block_key(block.nodes, border))
    return keys


def signature(nodes: Sequence[Node], border: Border) -> str:
    """Return a line for people: operators, and the types of the results."""
    operators = "+".join(node.op for node in nodes)
    results = ", ".join(str(value.type) for value in border.outputs)
    return f"{operators} -> {results}"


def _operand(value: Value, place: Mapping[Node, int], seen: dict[Value, int]) -> list[Any]:
    if value.node in place:
        return ["call", place[value.node], value.index]
    if is_inline_constant(value):
        return ["scalar", value.dtype, repr(value.array.item())]
    # The same tensor read twice is one argument.
    return ["argument", seen.setdefault(value, len(seen)), str(value.type)]


def _digest_of(value: Value) -> str:
    return hashlib.sha256(value.array.tobytes()).hexdigest()[:DIGITS]


def _plain(attrs: Mapping[str, Any]) -> list[list[str]]:
    return [[name, repr(value)] for name, value in sorted(attrs.items())]
