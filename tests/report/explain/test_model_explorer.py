from __future__ import annotations

import json
from pathlib import Path

from tvm import relay

from tests.fusion.planned import planned
from tests.relay_modules import const, var
from tvm_fusionx.report.explain.model_explorer import model_explorer_graphs, save_model_explorer

x = var("x", 64, 512)
PLAN = planned(relay.nn.dense(relay.nn.relu(relay.nn.dense(x, const(512, 512))), const(8, 512)))


def test_operators_stand_in_the_namespace_of_their_block() -> None:
    (graph,) = model_explorer_graphs(PLAN, "net")["graphs"]
    by_id = {node["id"]: node for node in graph["nodes"]}
    assert len(by_id) == len(graph["nodes"])
    for block in PLAN.blocks:
        assert block.name in graph["groupNodeAttributes"]
        for node in block.nodes:
            shown = by_id[PLAN.labels[node]]
            assert shown["namespace"] == block.name
            assert shown["label"] == node.op
            assert len(shown["incomingEdges"]) == len(node.operands)


def test_every_edge_starts_at_a_node_with_its_type() -> None:
    (graph,) = model_explorer_graphs(PLAN, "net")["graphs"]
    by_id = {node["id"]: node for node in graph["nodes"]}
    for node in graph["nodes"]:
        for edge in node.get("incomingEdges", ()):
            source = by_id[edge["sourceNodeId"]]
            assert edge["sourceNodeOutputId"] in {item["id"] for item in source["outputsMetadata"]}
    (shape,) = by_id["x"]["outputsMetadata"][0]["attrs"]
    assert shape == {"key": "tensor_shape", "value": "float32[64, 512]"}


def test_the_file_is_json_with_a_label(tmp_path: Path) -> None:
    save_model_explorer(PLAN, "net", tmp_path / "net.json")
    assert json.loads((tmp_path / "net.json").read_text()) == model_explorer_graphs(PLAN, "net")
    assert model_explorer_graphs(PLAN, "net")["label"] == "net"
