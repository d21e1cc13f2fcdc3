from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from hypothesis import given
from tvm import relay

from tests.ecg.round_trip import assert_round_trip, back
from tests.random_relay import random_relay
from tests.relay_modules import blocks_of, const, graph, module, var
from tvm_fusionx.ecg import Graph, TensorType, from_relay, to_relay
from tvm_fusionx.ecg.relay_types import infer_types
from tvm_fusionx.ecg.to_relay import RelayBlock, block_outputs, is_inline_constant

CHAIN = 20_000

x, y = var("x", 4, 8), var("y", 4, 8)
image, kernel = var("image", 1, 4, 8, 8), const(6, 4, 3, 3)
half, whole, truth = var("half", 4, dtype="float16"), var("n", 4, dtype="int64"), relay.const(True)
batch = var("batch", 2, 4, 8)


def _called_function() -> relay.Expr:
    p = var("p", 4, 8)
    func = relay.Function([p], relay.exp(p)).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    return relay.Call(func, [x])


def _several_of_split() -> relay.Expr:
    parts = relay.split(x, [2, 5], axis=1)
    return relay.Tuple([parts[1], parts[0], relay.exp(parts[2])])


def _batch_norm() -> relay.Expr:
    rows = [const(4, seed=seed) for seed in range(4)]
    return relay.nn.batch_norm(image, *rows, epsilon=1e-3)[0]


KINDS: dict[str, Callable[[], relay.Expr]] = {
    "elementwise": lambda: relay.tanh(x) * y - relay.clip(x, -0.5, 2.5),
    "scalar": lambda: x * relay.const(2.0) + relay.const(np.float32(3)),
    "bool": lambda: relay.where(relay.logical_and(x > y, truth), x, y),
    "int64": lambda: relay.cast(relay.left_shift(whole, relay.const(1, "int64")), "int32"),
    "float16": lambda: relay.cast(half * relay.const(2.0, "float16"), "float32"),
    "returned input": lambda: x,
    "returned constant": lambda: relay.Tuple([const(3), x]),
    "same value twice": lambda: relay.Tuple([x, relay.exp(x), relay.exp(x)]),
    "tuple of one": lambda: relay.Tuple([relay.exp(x)]),
    "conv2d": lambda: relay.nn.conv2d(image, kernel, strides=(2, 1), padding=(1, 0, 1, 2)),
    "depthwise": lambda: relay.nn.conv2d(image, const(4, 1, 3, 3), groups=4, channels=4),
    "batch norm": _batch_norm,
    "pool": lambda: relay.nn.max_pool2d(image, pool_size=(3, 3), ceil_mode=True),
    "resize": lambda: relay.image.resize2d(image, (12, 5), roi=None, method="cubic"),
    "pad": lambda: relay.nn.pad(image, ((0, 0), (0, 0), (1, 2), (3, 0)), pad_value=1.5),
    "batch_matmul": lambda: relay.nn.batch_matmul(batch, batch, transpose_b=True),
    "dense out type": lambda: relay.nn.dense(x, const(3, 8), units=3, out_dtype="float32"),
    "split": _several_of_split,
    "split evenly": lambda: relay.split(x, 4, axis=1)[3],
    "concatenate": lambda: relay.concatenate([x, y, x], axis=0),
    "stack": lambda: relay.stack([x, y], axis=-1),
    "einsum": lambda: relay.einsum([x, y], "ij,kj->ik"),
    "tuple result": lambda: relay.Tuple(list(relay.topk(x, k=3, axis=1))),
    "slice": lambda: relay.strided_slice(x, [0, 6], [4, 1], [1, -2]),
    "take": lambda: relay.take(x, relay.const([1, 0], "int64"), axis=1, mode="clip"),
    "squeeze all": lambda: relay.squeeze(var("thin", 1, 4, 1)),
    "reduce exclude": lambda: relay.sum(batch, axis=[1], keepdims=True, exclude=True),
    "arange": lambda: relay.arange(relay.const(0), relay.const(9), relay.const(2), dtype="int32"),
    "full": lambda: relay.full(relay.const(0.5), (3, 2), "float32"),
    "called function": _called_function,
}


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_the_identity(kind: str) -> None:
    assert_round_trip(module(KINDS[kind]()))


def test_a_returned_tuple_comes_back_as_its_fields() -> None:
    mod = module(relay.topk(x, k=3, axis=1).astuple())
    out = back(mod)["main"]
    assert isinstance(out.body, relay.Tuple)
    assert tvm.ir.structural_equal(out.ret_type, mod["main"].ret_type)


def test_equal_calls_come_back_as_one() -> None:
    out = back(module(relay.exp(x) + relay.exp(x)))["main"].body
    assert out.args[0].same_as(out.args[1])


def test_parameters_and_attributes_of_the_function_are_kept() -> None:
    unread = var("unread", 3)
    mod = module(relay.exp(x), params=[unread, x])
    mod["main"] = mod["main"].with_attr("owner", "tester")
    func = to_relay(from_relay(relay.transform.InferType()(mod)["main"]))
    assert [param.name_hint for param in func.params] == ["unread", "x"]
    assert func.attrs["owner"] == "tester"


def test_node_names_come_back_as_spans() -> None:
    span = relay.Span(relay.SourceName("layer/exp"), 0, 0, 0, 0)
    call = relay.Call(relay.op.get("exp"), [x], None, None, span)
    assert str(back(module(call))["main"].body.span.source_name.name) == "layer/exp"


@pytest.mark.slow
def test_a_deep_chain_comes_back() -> None:
    found = Graph(infer_types)
    value = found.input("x", TensorType((1,), "float32"))
    for _ in range(CHAIN):
        value = found.call_node("nn.relu", [value], outputs=(value.type,))[0]
    found.outputs = (value,)
    body = to_relay(found).body
    depth = 0
    while isinstance(body, relay.Call):
        body, depth = body.args[0], depth + 1
    assert depth == CHAIN


# ---- blocks -----------------------------------------------------------------------------------


def _blocks(found: Graph, *groups: tuple[str, ...], reshape_only: bool = False) -> tvm.IRModule:
    """Return the module in which the calls of each group of operators form a block."""
    blocks = [
        RelayBlock(
            f"block{position}",
            tuple(node for node in found.calls() if node.op in group),
            reshape_only,
        )
        for position, group in enumerate(groups)
    ]
    return relay.transform.InferType()(tvm.IRModule.from_expr(to_relay(found, blocks)))


def test_a_block_is_one_inline_primitive_function() -> None:
    found = graph(relay.nn.relu(relay.nn.dense(x, const(3, 8)) + const(3)))
    (block,) = blocks_of(_blocks(found, ("nn.dense", "add", "nn.relu")))
    assert int(block.attrs["Primitive"]) == 1
    assert block.attrs["fusionx.block"] == "block0"
    assert "relay.reshape_only" not in block.attrs
    assert len(block.params) == 3


def test_scalars_are_written_into_the_block_and_tensors_are_passed() -> None:
    found = graph(x * relay.const(2.0) + const(8))
    (block,) = blocks_of(_blocks(found, ("multiply", "add")))
    assert [tuple(map(int, p.type_annotation.shape)) for p in block.params] == [(4, 8), (8,)]
    scalar = next(n for n in found.topological() if n.op == "constant" and n.outputs[0].shape == ())
    assert is_inline_constant(scalar[0])
    assert not is_inline_constant(found.inputs[0][0])


def test_a_block_names_the_nodes_of_the_model_once() -> None:
    spans = [relay.Span(relay.SourceName(name), 0, 0, 0, 0) for name in ("a", "b", "a")]
    expr: relay.Expr = x
    for operator, span in zip(("exp", "tanh", "sqrt"), spans, strict=True):
        expr = relay.Call(relay.op.get(operator), [expr], None, None, span)
    (block,) = blocks_of(_blocks(graph(expr), ("exp", "tanh", "sqrt")))
    assert block.attrs["fusionx.nodes"] == "a,b"


def test_a_block_with_two_readers_outside_returns_a_tuple() -> None:
    first = relay.exp(x)
    second = relay.tanh(first)
    found = graph(relay.sqrt(first), relay.sin(second))
    nodes = [node for node in found.calls() if node.op in ("exp", "tanh")]
    assert [value.op for value in block_outputs(found, nodes)] == ["exp", "tanh"]
    (block,) = blocks_of(_blocks(found, ("exp", "tanh")))
    assert isinstance(block.ret_type, relay.TupleType)


def test_a_block_of_reshapes_says_so() -> None:
    found = graph(relay.reshape(x, (32,)))
    (block,) = blocks_of(_blocks(found, ("reshape",), reshape_only=True))
    assert int(block.attrs["relay.reshape_only"]) == 1


def test_blocks_that_read_each_other_in_turn_are_written_in_order() -> None:
    first = relay.exp(x)
    second = relay.tanh(first)
    mod = _blocks(graph(relay.sqrt(second) + first), ("exp",), ("tanh", "sqrt"), ("add",))
    assert [str(b.attrs["fusionx.block"]) for b in blocks_of(mod)] == ["block0", "block1", "block2"]


# ---- random graphs ----------------------------------------------------------------------------


@pytest.mark.slow
@given(random_relay())
def test_random_graphs_come_back_as_they_were(mod: tvm.IRModule) -> None:
    assert_round_trip(mod)
