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
