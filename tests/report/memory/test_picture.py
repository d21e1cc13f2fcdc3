from __future__ import annotations

import xml.etree.ElementTree as ElementTree

from tests.build.test_memory import GRAPH, PARAMS
from tvm_fusionx.build.memory import memory_of
from tvm_fusionx.late_passes.workspaces import Workspace
from tvm_fusionx.report.memory.picture import WORKSPACE, arena_picture

SVG = "{http://www.w3.org/2000/svg}"


def test_every_tensor_is_a_box_of_its_size_and_life() -> None:
    memory = memory_of(GRAPH, PARAMS, {"second": Workspace(64)})
    root = ElementTree.fromstring(arena_picture(memory, "a <model> & more"))
    boxes = {
        box.findtext(f"{SVG}title"): box for box in root.iter(f"{SVG}rect") if len(list(box)) == 1
    }
    assert len(boxes) == len(memory.plan.tenants) == 3
    (first,) = [box for title, box in boxes.items() if str(title).startswith("first: 128 bytes")]
    (second,) = [box for title, box in boxes.items() if str(title).startswith("second: 64 bytes")]
    assert float(first.attrib["height"]) == 2 * float(second.attrib["height"])
    grey = [box for box in boxes.values() if box.attrib["fill"] == WORKSPACE]
    assert [box.findtext(f"{SVG}title") for box in grey] == [
        title for title in boxes if str(title).startswith("workspace of second")
    ]
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts[0] == "a <model> & more: arena 256 bytes, peak at second"


def test_a_model_of_no_kernels_can_be_drawn() -> None:
    only_input = GRAPH.replace('"heads": [[5, 0, 0]]', '"heads": [[0, 0, 0]]')
    assert ElementTree.fromstring(arena_picture(memory_of(only_input, PARAMS, {}), "x")) is not None
