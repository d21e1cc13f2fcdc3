"""Write a plan for Google's Model Explorer: its graph JSON, one namespace a block."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tvm_fusionx.ecg.graph import CONSTANT, Node, Value
from tvm_fusionx.fusion import Block, Plan
from tvm_fusionx.fusion.classify import mapping_type
from tvm_fusionx.output_file import new_file


def model_explorer_graphs(plan: Plan, title: str) -> dict[str, Any]:
    """Return a plan as a collection of one graph: operators, grouped in their blocks.

    Parameters
    ----------
    plan
        Blocks of one graph.
    title
        Label of the collection.

    Returns
    -------
    dict
        A ``GraphCollection`` in Model Explorer's words; nodes and namespaces bear the names of the
        report and of the compiled library.
    """
    nodes = []
    borders: dict[Node, None] = {}
    for block in plan.blocks:
        for node in block.nodes:
            borders.update(
                {value.node: None for value in node.operands if value.node not in plan.labels}
            )
            nodes.append(_call(plan, block, node))
    sources = [
        {
            "id": _name(plan, node),
            "label": node.op,
            "namespace": "",
            "outputsMetadata": _types(node),
        }
        for node in borders
    ]
    facts = {block.name: _facts(block) for block in plan.blocks}
    graph = {"id": "main", "nodes": [*sources, *nodes], "groupNodeAttributes": facts}
    return {"label": title, "graphs": [graph]}


def save_model_explorer(plan: Plan, title: str, path: str | Path) -> None:
    """Write :func:`model_explorer_graphs` to a JSON file; ``model-explorer FILE`` shows it.

    Raises
    ------
    OutputFileError
        The file cannot be written.
    """
    with new_file(path) as scratch:
        scratch.write_text(json.dumps(model_explorer_graphs(plan, title)), encoding="utf-8")


def _call(plan: Plan, block: Block, node: Node) -> dict[str, Any]:
    attrs = {"mapping type": mapping_type(node).value, "node": node.name}
    attrs.update({name: str(value) for name, value in node.attrs.items()})
    return {
        "id": _name(plan, node),
        "label": node.op,
        "namespace": block.name,
        "attrs": [{"key": key, "value": value} for key, value in attrs.items() if value],
        "incomingEdges": [
            {
                "sourceNodeId": _name(plan, value.node),
                "sourceNodeOutputId": str(value.index),
                "targetNodeInputId": str(place),
            }
            for place, value in enumerate(node.operands)
        ],
        "outputsMetadata": _types(node),
    }


def _name(plan: Plan, node: Node) -> str:
    return plan.labels.get(node) or value_name(node[0])


def value_name(value: Value) -> str:
    """Return what a tensor that no call makes is called: the input's name, or a number."""
    node = value.node
    return f"constant_{node.number}" if node.op == CONSTANT else node.name


def _types(node: Node) -> list[dict[str, Any]]:
    return [
        {"id": str(value.index), "attrs": [{"key": "tensor_shape", "value": str(value.type)}]}
        for value in node
    ]


def _facts(block: Block) -> dict[str, str]:
    return {
        "mapping type": block.mapping_type.value,
        "operators": str(len(block.nodes)),
        "bytes never written": f"{block.bytes_saved:,}",
        "flops": f"{block.flops:,}",
    }
