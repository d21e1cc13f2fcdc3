"""Tell TVM's graph executor which constants to put on the device as images."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

Textures = Mapping[str, Mapping[int, str]]
"""For a kernel's symbol, the scope of each parameter that is an image, by its position."""

SUFFIX = "_texture"


def place_textures(
    text: str, params: Mapping[str, Any], textures: Textures
) -> tuple[str, dict[str, Any]]:
    """Return the executor's graph and constants with images where kernels take them.

    A constant that one kernel takes as an image and another as a buffer is there twice.

    Parameters
    ----------
    text
        The graph as JSON.
    params
        Constants by name.
    textures
        What the kernels take.

    Raises
    ------
    ValueError
        A kernel takes an image that is no constant.
    """
    graph = json.loads(text)
    values = dict(params)
    wanted: dict[int, list[tuple[list[int], str]]] = {}
    buffers = set()
    for node in graph["nodes"]:
        scopes = textures.get(node.get("attrs", {}).get("func_name", ""), {})
        for place, operand in enumerate(node["inputs"]):
            if place in scopes:
                wanted.setdefault(operand[0], []).append((operand, scopes[place]))
            else:
                buffers.add(operand[0])
    attributes = graph["attrs"]
    if not wanted and "storage_scope" not in attributes:
        return text, values
    # For an Adreno, TVM plans images that its own kernels would take.
    attributes["storage_scope"] = ["list_str", [""] * len(attributes["shape"][1])]
    for index, readers in wanted.items():
        name = graph["nodes"][index]["name"]
        if name not in values:
            raise ValueError(f"{name} is an image for a kernel, and no constant of the model")
        scope = readers[0][1]
        if index not in buffers:
            attributes["storage_scope"][1][graph["node_row_ptr"][index]] = scope
            continue
        added = _add_constant(graph, index, scope)
        values[graph["nodes"][added]["name"]] = values[name]
        for operand, _ in readers:
            operand[0] = added
    return json.dumps(graph, indent=2), values


def _add_constant(graph: dict[str, Any], original: int, scope: str) -> int:
    """Append an input like `original` to the graph; return its number."""
    index = len(graph["nodes"])
    name = graph["nodes"][original]["name"] + SUFFIX
    graph["nodes"].append({"op": "null", "name": name, "inputs": []})
    graph["arg_nodes"].append(index)
    entry = graph["node_row_ptr"][original]
    graph["node_row_ptr"].append(graph["node_row_ptr"][-1] + 1)
    for key, (_, values) in graph["attrs"].items():
        if key == "storage_id":
            values.append(max(values) + 1)
        elif key == "storage_scope":
            values.append(scope)
        else:
            values.append(values[entry])
    return index
