from __future__ import annotations

import json
from typing import Any

import pytest

from tvm_fusionx.schedules.gpu.texture_graph import place_textures

SCOPE = "global.texture-weight"


def _graph(*functions: str, scopes: list[str] | None = None) -> str:
    """Return a graph in which each function takes input 0 and constant 1."""
    calls = [
        {"op": "tvm_op", "name": f, "attrs": {"func_name": f}, "inputs": [[0, 0, 0], [1, 0, 0]]}
        for f in functions
    ]
    nodes = [{"op": "null", "name": name, "inputs": []} for name in ("x", "w")] + calls
    count = len(nodes)
    attributes: dict[str, Any] = {
        "shape": ["list_shape", [[4, 2, 4]] * count],
        "dltype": ["list_str", ["float32"] * count],
        "storage_id": ["list_int", list(range(count))],
    }
    if scopes is not None:
        attributes["storage_scope"] = ["list_str", scopes]
    rows = list(range(count + 1))
    return json.dumps(
        {"nodes": nodes, "arg_nodes": [0, 1], "node_row_ptr": rows, "attrs": attributes}
    )


def test_without_images_nothing_changes() -> None:
    text = _graph("f")
    assert place_textures(text, {"w": 1}, {}) == (text, {"w": 1})


def test_a_constant_that_all_kernels_take_as_an_image_is_one() -> None:
    text, params = place_textures(_graph("f", "f"), {"w": 1}, {"f": {1: SCOPE}})
    assert json.loads(text)["attrs"]["storage_scope"][1] == ["", SCOPE, "", ""]
    assert params == {"w": 1}


def test_a_constant_that_another_kernel_takes_as_a_buffer_is_there_twice() -> None:
    text, params = place_textures(_graph("f", "g"), {"w": 1}, {"f": {1: SCOPE}})
    graph = json.loads(text)
    assert params == {"w": 1, "w_texture": 1}
    assert graph["arg_nodes"] == [0, 1, 4]
    assert graph["nodes"][4]["name"] == "w_texture"
    assert [node["inputs"][1][0] for node in graph["nodes"][2:4]] == [4, 1]
    assert graph["node_row_ptr"] == [0, 1, 2, 3, 4, 5]
    attributes = {key: values for key, (_, values) in graph["attrs"].items()}
    assert attributes["storage_scope"] == ["", "", "", "", SCOPE]
    assert attributes["storage_id"] == [0, 1, 2, 3, 4]
    assert len(attributes["shape"]) == len(attributes["dltype"]) == 5


def test_images_that_tvm_planned_for_its_own_kernels_are_none() -> None:
    scopes = ["global", SCOPE, "global.texture"]
    text, _ = place_textures(_graph("f", scopes=scopes), {"w": 1}, {})
    assert json.loads(text)["attrs"]["storage_scope"][1] == ["", "", ""]


def test_only_constants_can_be_images() -> None:
    with pytest.raises(ValueError, match="x is an image for a kernel, and no constant"):
        place_textures(_graph("f"), {"w": 1}, {"f": {0: SCOPE}})


IMAGE = "global.texture"


def _chain(*shapes: list[int]) -> str:
    """Return a graph in which each function takes what the one before writes."""
    names = [f"f{place}" for place in range(len(shapes) - 1)]
    nodes: list[dict[str, Any]] = [{"op": "null", "name": "x", "inputs": []}]
    for place, name in enumerate(names):
        nodes.append(
            {
                "op": "tvm_op",
                "name": name,
                "attrs": {"func_name": name},
                "inputs": [[place, 0, 0]],
            }
        )
    count = len(nodes)
    attributes: dict[str, Any] = {
        "shape": ["list_shape", list(shapes)],
        "dltype": ["list_str", ["float32"] * count],
        "storage_id": ["list_int", [place % 2 for place in range(count)]],
    }
    rows = list(range(count + 1))
    return json.dumps({"nodes": nodes, "arg_nodes": [0], "node_row_ptr": rows, "attrs": attributes})


def test_what_kernels_write_as_images_shares_storage_with_images_of_its_size_alone() -> None:
    same, other = [1, 2, 3, 5, 4], [1, 2, 5, 3, 4]
    graph = _chain(same, same, same, [6, 5, 4], other, same, same)
    places = {f"f{place}": {0: IMAGE, 1: IMAGE} for place in range(1, 5)}
    textures = {"f0": {1: IMAGE}, **places, "f5": {0: IMAGE}}
    text, _ = place_textures(graph, {}, textures)
    attributes = {key: values for key, (_, values) in json.loads(text)["attrs"].items()}
    assert attributes["storage_scope"] == ["", *[IMAGE] * 5, ""]
    # The kernel that writes the third image still reads the second, and no longer the first; the
    # fourth is of another size. Nothing is left of the storage that was planned for buffers.
    assert attributes["storage_id"] == [0, 1, 2, 1, 3, 2, 0]


def test_an_image_that_another_kernel_takes_as_a_buffer_is_an_error() -> None:
    with pytest.raises(ValueError, match="f0 writes an image, which f1 takes as a buffer"):
        place_textures(_chain(*[[1, 2, 4]] * 3), {}, {"f0": {1: IMAGE}})
