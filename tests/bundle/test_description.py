from __future__ import annotations

import numpy as np
import tvm

from tests.build.test_memory import GRAPH
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.memory import memory_of
from tvm_fusionx.bundle.description import Description, describe
from tvm_fusionx.bundle.weights import laid_out
from tvm_fusionx.late_passes.workspaces import Workspace

PARAMS = {"p0": tvm.nd.array(np.zeros(16, "float32"))}
WORKSPACES = {"second": Workspace(64, 128)}


def _described(text: str = GRAPH) -> Description:
    memory = memory_of(text, PARAMS, WORKSPACES)
    graph = KernelGraph.from_json(text)
    return describe(graph, PARAMS, memory, laid_out(PARAMS), WORKSPACES)


def _places(described: Description, call: int) -> list[str]:
    row = described.calls[call]
    numbers = described.arguments[row["first"] : row["first"] + row["count"]]
    return [described.tensors[number]["where"] for number in numbers]


def test_every_argument_has_its_place() -> None:
    described = _described()
    assert _places(described, 0) == ["IN_INPUT", "IN_WEIGHTS", "IN_ARENA"]
    assert _places(described, 1) == ["IN_ARENA", "IN_ARENA"]
    assert _places(described, 2) == ["IN_ARENA", "IN_OUTPUT"]
    assert described.has_workspace
    assert [call["task_bytes"] for call in described.calls] == [0, 128, 0]
    assert not described.copies


def test_an_output_lends_its_memory_until_it_is_written() -> None:
    described = _described(GRAPH.replace("[8], [10]]", "[8], [40]]"))
    assert _places(described, 0) == ["IN_INPUT", "IN_WEIGHTS", "IN_OUTPUT"]
    assert _places(described, 1) == ["IN_OUTPUT", "IN_ARENA"]


def test_a_view_has_its_own_extents_in_the_same_place() -> None:
    described = _described()
    made, view = described.arguments[2], described.arguments[3]
    one, two = described.tensors[made], described.tensors[view]
    assert (one["place"], one["ndim"], two["ndim"]) == (two["place"], 2, 1)
    assert described.shapes[two["shape"]] == 32


def test_an_output_that_is_an_input_is_copied() -> None:
    described = _described(GRAPH.replace('"heads": [[5, 0, 0]]', '"heads": [[0, 0, 0], [5, 0, 0]]'))
    (copy,) = described.copies
    assert (copy["output"], copy["bytes"]) == (0, 64)
    assert described.tensors[copy["source"]]["where"] == "IN_INPUT"
