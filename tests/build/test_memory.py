from __future__ import annotations

import json

import pytest
from tvm import relay
from tvm.relay.backend.executor_factory import GraphExecutorFactoryModule

import tvm_fusionx as fx
from tests.relay_modules import TARGET, const, module, var
from tests.tiny_models import lookup
from tvm_fusionx.build.fused_build import BUILT_FROM
from tvm_fusionx.build.kernels import KernelGraph
from tvm_fusionx.build.memory import (
    check_limit,
    memory_of,
    memory_of_build,
    parse_size,
    program_of,
    root_of,
    size_text,
    tvm_activations,
)
from tvm_fusionx.errors import ModelError, ShapeError
from tvm_fusionx.late_passes.workspaces import Workspace

# Nodes of the executor's graph: x, weight, a kernel, a view of its result, a kernel, a kernel.
GRAPH = json.dumps(
    {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "null", "name": "p0", "inputs": []},
            _call := {
                "op": "tvm_op",
                "name": "first",
                "attrs": {"func_name": "first"},
                "inputs": [[0, 0, 0], [1, 0, 0]],
            },
            {
                "op": "tvm_op",
                "name": "reshape_nop",
                "attrs": {"func_name": "__nop"},
                "inputs": [[2, 0, 0]],
            },
            {**_call, "name": "second", "attrs": {"func_name": "second"}, "inputs": [[3, 0, 0]]},
            {**_call, "name": "third", "attrs": {"func_name": "third"}, "inputs": [[4, 0, 0]]},
        ],
        "node_row_ptr": [0, 1, 2, 3, 4, 5, 6],
        "heads": [[5, 0, 0]],
        "attrs": {
            "shape": ["list_shape", [[16], [16], [4, 8], [32], [8], [10]]],
            "dltype": ["list_str", ["float32"] * 6],
            "storage_id": ["list_int", [0, 1, 2, 2, 3, 2]],
        },
    }
)
PARAMS = {"p0": None}


def test_views_are_no_tensors_and_outputs_lie_outside() -> None:
    graph = KernelGraph.from_json(GRAPH)
    program, buffers = program_of(graph, {"second": Workspace(64, 128)}, 2, {})
    assert root_of(graph, (3, 0)) == (2, 0)
    assert [call.name for call in program.calls] == ["first", "second", "third"]
    assert [call.reads for call in program.calls] == [(), (0,), (1,)]
    assert [call.workspace_bytes for call in program.calls] == [0, 64 + 2 * 128, 0]
    assert [buffer.is_outside for buffer in program.buffers] == [False, False, True]
    assert buffers == {(2, 0): 0, (4, 0): 1, (5, 0): 2}


def test_everything_that_a_model_takes_is_counted() -> None:
    memory = memory_of(GRAPH, PARAMS, {"second": Workspace(64)})
    assert (memory.weights, memory.inputs, memory.outputs, memory.workspace) == (64, 64, 40, 64)
    assert memory.plan.arena_bytes == 128 + 64 + 64
    assert memory.total == 64 + 64 + 40 + 256
    told = memory.as_json()
    assert told["arena_bytes"] == told["arena_bound_bytes"] == 256
    assert (told["peak_kernel"], told["total_bytes"]) == ("second", memory.total)
    assert [kernel["live_bytes"] for kernel in told["kernels"]] == [128, 256, 64]
    assert {tensor["name"] for tensor in told["tensors"]} == {
        "first",
        "second",
        "workspace of second",
    }


def test_tvms_plan_is_read_from_its_storage() -> None:
    # x, the larger of what shares storage 2, and storage 3.
    assert tvm_activations(GRAPH, PARAMS) == 64 + 128 + 64


@pytest.mark.parametrize(
    ("text", "size"),
    [("64MiB", 64 << 20), ("1.5 GB", 1_500_000_000), (4096, 4096), ("1KB", 1000), ("7 B", 7)],
)
def test_a_size_is_read(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["much", "-1", "64 MiBs", "", "1e3", -5, "9" * 400])
def test_what_is_no_size_is_refused(text: str | int) -> None:
    with pytest.raises(ShapeError, match="Write it like 64MiB"):
        parse_size(text)


def test_sizes_are_told_to_people() -> None:
    assert size_text(64 << 20) == "64 MiB (67108864 bytes)"
    assert size_text(100) == "100 bytes"


def test_a_limit_says_what_is_needed_and_where() -> None:
    memory = memory_of(GRAPH, PARAMS, {"second": Workspace(64)})
    check_limit(memory, memory.total)
    with pytest.raises(ModelError, match=r"at most 423 bytes; found 424 bytes: weights 64 bytes"):
        check_limit(memory, memory.total - 1)
    with pytest.raises(ModelError, match="its peak at kernel 'second'"):
        check_limit(memory, 1)


def _dense() -> relay.Expr:
    return relay.nn.softmax(relay.nn.dense(var("x", 4, 16), const(8, 16)))


def test_a_build_over_its_limit_is_refused_and_one_within_it_is_not() -> None:
    library = fx.build(module(_dense()), TARGET)
    needed = memory_of_build(library, getattr(library, BUILT_FROM)[1]).total
    assert isinstance(
        fx.build(module(_dense()), TARGET, memory_limit=needed), GraphExecutorFactoryModule
    )
    with pytest.raises(ModelError, match=f"at most {needed - 1} bytes"):
        fx.build(module(_dense()), TARGET, memory_limit=needed - 1)


def test_a_limit_is_read_before_anything_is_built() -> None:
    with pytest.raises(ShapeError, match="memory limit: expected a size"):
        fx.build(module(_dense()), TARGET, memory_limit="small")


def test_programs_for_several_shapes_are_all_looked_at() -> None:
    with pytest.raises(ModelError, match="memory of the model"):
        fx.build(lookup(), TARGET, shapes=[{}], memory_limit=10)


def test_what_the_data_decides_has_no_plan() -> None:
    with pytest.raises(ModelError, match="TVM's virtual machine"):
        fx.build(module(_dense()), TARGET, executor="vm", memory_limit="1GiB")
