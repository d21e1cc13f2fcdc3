from __future__ import annotations

import json
from dataclasses import asdict

from tvm_fusionx.build.kernels import NO_OP, KernelGraph, KernelNote, Tensor
from tvm_fusionx.schedules.block_work import Work


def _graph_json() -> str:
    """x -> conv -> (reshape, no-op) -> dense -> output; the reshape is an output too."""

    def call(name: str, function: str, source: int, **attributes: str) -> dict[str, object]:
        attrs = {"func_name": function, "num_outputs": "1", **attributes}
        return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[source, 0, 0]]}

    named = {"fusionx.block": "conv_relu", "fusionx.nodes": "Conv_0,Relu_1"}
    return json.dumps(
        {
            "nodes": [
                {"op": "null", "name": "x", "inputs": []},
                call("fused_nn_conv2d", "k0", 0, **named),
                call("reshape_nop", NO_OP, 1),
                call("fused_nn_dense", "k1", 2),
                call("fused_cast", "k2", 3),
            ],
            "arg_nodes": [0],
            "heads": [[4, 0, 0], [2, 0, 0]],
            "attrs": {
                "dltype": ["list_str", ["float32", "float32", "float32", "float16", "bool"]],
                "shape": ["list_shape", [[2, 4], [2, 6], [12], [10], [10]]],
            },
            "node_row_ptr": [0, 1, 2, 3, 4, 5],
        }
    )


def test_no_op_reshapes_are_not_kernels() -> None:
    graph = KernelGraph.from_json(_graph_json())
    assert [node.function for node in graph.kernels] == ["k0", "k1", "k2"]
    assert [node.is_call for node in graph.nodes] == [False, True, True, True, True]


def test_a_block_is_known_by_its_own_name_and_its_nodes() -> None:
    first, second, _ = KernelGraph.from_json(_graph_json()).kernels
    assert (first.name, first.operators) == ("conv_relu", ("Conv_0", "Relu_1"))
    assert (second.name, second.operators) == ("fused_nn_dense", ())
    assert second.inputs == ((2, 0),)


def test_intermediate_bytes_leave_out_what_the_model_returns_also_through_a_reshape() -> None:
    # k0 leaves through the reshape, k2 directly: ten float16 of k1 remain.
    assert KernelGraph.from_json(_graph_json()).intermediate_bytes == 20


def test_a_tensor_knows_its_size() -> None:
    assert Tensor((2, 3), "float32").bytes == 24
    assert Tensor((), "int64").bytes == 8
    assert Tensor((5,), "bool").bytes == 5
    assert Tensor((5,), "uint8").bytes == 5
    assert Tensor((0, 5), "float32").bytes == 0


def test_a_note_is_read_as_it_was_written_also_one_from_before_its_later_fields() -> None:
    work = Work(flops=8, instructions=4, read_bytes=16)
    note = KernelNote("dense", ("fc1",), "dot", 8, is_tuned=True, work=work)
    written = json.loads(json.dumps(asdict(note)))
    assert KernelNote.from_json(written) == note
    for key in ("is_tuned", "work"):
        del written[key]
    assert KernelNote.from_json(written) == KernelNote("dense", ("fc1",), "dot", 8)


def test_a_type_has_relays_name_and_not_the_executors() -> None:
    graph = KernelGraph.from_json(_graph_json().replace('"bool"', '"uint1"'))
    assert graph.nodes[4].outputs == (Tensor((10,), "bool"),)
