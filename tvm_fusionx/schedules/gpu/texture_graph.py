"""Tell TVM's graph executor which tensors to put on the device as images."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

Textures = Mapping[str, Mapping[int, str]]
"""For a kernel's symbol, the scope of each parameter that is an image, by its position; results
come after what is read."""

SUFFIX = "_texture"


def place_textures(
    text: str, params: Mapping[str, Any], textures: Textures
) -> tuple[str, dict[str, Any]]:
    """Return the executor's graph and constants with images where kernels take them.

    A constant that one kernel takes as an image and another as a buffer is there twice. What a
    kernel writes as an image has storage of its own: TVM planned storage by bytes.

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
        A kernel takes an image that is no constant and that no kernel writes as one, or takes a
        buffer that another writes as an image.
    """
    graph = json.loads(text)
    values = dict(params)
    wanted: dict[int, list[tuple[list[int], str]]] = {}
    buffers: dict[int, str] = {}
    written: dict[int, str] = {}
    for index, node in enumerate(graph["nodes"]):
        scopes = textures.get(node.get("attrs", {}).get("func_name", ""), {})
        operands = node["inputs"]
        for place, operand in enumerate(operands):
            if place in scopes:
                wanted.setdefault(operand[0], []).append((operand, scopes[place]))
            else:
                buffers[operand[0]] = node["name"]
        results = [scope for place, scope in scopes.items() if place >= len(operands)]
        written.update((index, scope) for scope in results)
    attributes = graph["attrs"]
    if not wanted and not written and "storage_scope" not in attributes:
        return text, values
    # For an Adreno, TVM plans images that its own kernels would take.
    attributes["storage_scope"] = ["list_str", [""] * len(attributes["shape"][1])]
    _place_results(graph, written, buffers)
    for index, readers in wanted.items():
        if index in written:
            continue
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


def _place_results(
    graph: dict[str, Any], written: Mapping[int, str], buffers: Mapping[int, str]
) -> None:
    """Give what kernels write as images storage that only images of equal size share."""
    attributes = graph["attrs"]
    last_reader = {
        operand[0]: index for index, node in enumerate(graph["nodes"]) for operand in node["inputs"]
    }
    storage = max(attributes["storage_id"][1], default=-1)
    idle: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for index, scope in sorted(written.items()):
        if index in buffers:
            name = graph["nodes"][index]["name"]
            raise ValueError(f"{name} writes an image, which {buffers[index]} takes as a buffer")
        entry = graph["node_row_ptr"][index]
        shape = attributes["shape"][1][entry]
        # Of those that were read for the last time before this kernel, the one that waits longest.
        waiting = idle.setdefault((math.prod(shape[:-2]), *shape[-2:]), [])
        if waiting and min(waiting)[0] < index:
            ended, place = min(waiting)
            waiting.remove((ended, place))
        else:
            storage += 1
            place = storage
        waiting.append((last_reader.get(index, len(graph["nodes"])), place))
        attributes["storage_scope"][1][entry] = scope
        attributes["storage_id"][1][entry] = place
    # The executor fails on a number that nothing bears.
    used = sorted(set(attributes["storage_id"][1]))
    numbers = {number: place for place, number in enumerate(used)}
    attributes["storage_id"][1] = [numbers[each] for each in attributes["storage_id"][1]]


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
