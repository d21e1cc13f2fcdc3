"""Name a block and count what it does."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from tvm_fusionx.ecg.flops import flops
from tvm_fusionx.ecg.graph import Graph, Node
from tvm_fusionx.ecg.to_relay import block_outputs
from tvm_fusionx.fusion.classify import mapping_type
from tvm_fusionx.fusion.geometry import is_contraction
from tvm_fusionx.fusion.mapping import most_complex
from tvm_fusionx.fusion.plan import Block
from tvm_fusionx.operators import REORGANIZE, MappingType

# Operators spelled out in a block's name; the rest is a count.
NAMED_OPERATORS = 3
_NOT_AN_IDENTIFIER = re.compile(r"[^0-9A-Za-z_]+")


def labels(calls: Sequence[Node]) -> dict[Node, str]:
    """Return what each call is called in reports: the model's name for it, else its number.

    Of several calls that one node of the model became, the first bears the name alone and the
    others a number with it, so that a label is one call's.
    """
    taken: Counter[str] = Counter()
    found = {}
    for node in calls:
        base = node.name or f"{node.op}#{node.number}"
        taken[base] += 1
        found[node] = base if taken[base] == 1 else f"{base}#{taken[base]}"
    return found


def name_blocks(groups: Sequence[tuple[Node, ...]]) -> list[str]:
    """Return a unique name for each group of calls, telling its heaviest operators."""
    taken: Counter[str] = Counter()
    names = []
    for nodes in groups:
        base = _base_name(nodes)
        names.append(f"{base}_{taken[base]}" if taken[base] else base)
        taken[base] += 1
    return names


def _base_name(nodes: tuple[Node, ...]) -> str:
    ranked = [node for node in nodes if is_contraction(node)]
    ranked += [node for node in nodes if node not in ranked and _is_heavy(node)]
    ranked += [node for node in nodes if node not in ranked and node.op not in REORGANIZE]
    ranked = ranked or list(nodes)
    shown = dict.fromkeys(node.op.removeprefix("nn.") for node in ranked)
    words = list(shown)[:NAMED_OPERATORS]
    if len(nodes) > len(words):
        words.append(f"x{len(nodes)}")
    return _NOT_AN_IDENTIFIER.sub("_", "_".join(words))


def _is_heavy(node: Node) -> bool:
    return mapping_type(node) is MappingType.MANY_TO_MANY


def describe_block(graph: Graph, nodes: tuple[Node, ...], name: str) -> Block:
    """Count a block's bytes and arithmetic."""
    members = set(nodes)
    read = {value for node in nodes for value in node.operands if value.node not in members}
    outputs = block_outputs(graph, nodes)
    bytes_out = sum(value.type.bytes for value in outputs)
    produced = sum(node.bytes_out for node in nodes)
    return Block(
        name=name,
        nodes=nodes,
        mapping_type=most_complex(*(mapping_type(node) for node in nodes)),
        bytes_in=sum(value.type.bytes for value in read),
        bytes_out=bytes_out,
        bytes_saved=produced - bytes_out,
        flops=sum(flops(node) for node in nodes),
        is_reshape_only=all(node.op in REORGANIZE for node in nodes),
    )
