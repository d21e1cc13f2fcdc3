"""Damage to ONNX models: of the kinds that tools, transfers and people do to them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import onnx
from onnx import TensorProto, defs, helper

NUMBERS = (-(2**40), -1000, -7, -1, 0, 1, 2, 3, 7, 1000, 2**20, 2**31, 2**40, 2**63 - 1)
FLOATS = (float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 1e-30, 0.5, 3.0, 1e30)
WORDS = (
    "",
    "none",
    "SAME_UPPER",
    "linear",
    "\x00\xff",
    "abc,de->f",
    "ij,jk->ik",
    "wrap",
    "x" * 300,
)
ELEMENTS = sorted(TensorProto.DataType.values())
DIMS = (-5, -1, 0, 1, 2, 3, 5, 64, 1 << 20, 1 << 40)


def _operators() -> list[str]:
    return sorted({schema.name for schema in defs.get_all_schemas() if schema.domain == ""})


OPERATORS = _operators()


def _graphs(model: Any) -> list[Any]:
    graphs, waiting = [], [model.graph]
    while waiting:
        graph = waiting.pop()
        graphs.append(graph)
        waiting.extend(a.g for n in graph.node for a in n.attribute if a.HasField("g"))
    return graphs


def _any_graph(model: Any, rng: random.Random) -> Any:
    return rng.choice([graph for graph in _graphs(model) if graph.node] or [model.graph])


def _any_node(model: Any, rng: random.Random) -> Any:
    nodes = [node for graph in _graphs(model) for node in graph.node]
    return rng.choice(nodes) if nodes else None


def _names(model: Any) -> list[str]:
    names = {"", "nothing_makes_this"}
    for graph in _graphs(model):
        names.update(info.name for info in graph.input)
        names.update(tensor.name for tensor in graph.initializer)
        names.update(name for node in graph.node for name in node.output)
    return sorted(names)


def _drop(items: Any, rng: random.Random) -> None:
    if items:
        del items[rng.randrange(len(items))]


def _duplicate(items: Any, rng: random.Random) -> None:
    if items:
        items.append(rng.choice(list(items)))


def change_inputs(model: Any, rng: random.Random) -> None:
    """Drop, repeat, swap or rename the inputs of a node."""
    node = _any_node(model, rng)
    if node is None:
        return
    what = rng.randrange(5)
    if what == 0:
        _drop(node.input, rng)
    elif what == 1:
        node.input.append(rng.choice(_names(model)))
    elif what == 2 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(_names(model))
    elif what == 3:
        names = list(node.input)
        rng.shuffle(names)
        del node.input[:]
        node.input.extend(names)
    else:
        del node.input[:]


def change_outputs(model: Any, rng: random.Random) -> None:
    """Drop, repeat or rename the outputs of a node or a graph."""
    node, graph = _any_node(model, rng), _any_graph(model, rng)
    what = rng.randrange(4)
    if what == 0 and node is not None:
        _drop(node.output, rng)
    elif what == 1 and node is not None:
        node.output.append(rng.choice(_names(model)))
    elif what == 2 and graph.output:
        rng.choice(list(graph.output)).name = rng.choice(_names(model))
    else:
        _drop(graph.output, rng)


def change_nodes(model: Any, rng: random.Random) -> None:
    """Drop, repeat, shuffle or rename nodes, or make them another operator."""
    graph, what = _any_graph(model, rng), rng.randrange(6)
    nodes = list(graph.node)
    if what == 0:
        _drop(graph.node, rng)
    elif what == 1:
        _duplicate(graph.node, rng)
    elif what == 2:
        copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        rng.shuffle(copies)
        del graph.node[:]
        graph.node.extend(copies)
    elif nodes and what == 3:
        rng.choice(nodes).domain = rng.choice(["com.microsoft", "ai.onnx", "ai.onnx.ml", "a.b"])
    elif nodes and what == 4:
        rng.choice(nodes).name = rng.choice(["", "same", "a/b", "\u00e4"])
    elif nodes:
        rng.choice(nodes).op_type = rng.choice(OPERATORS)


def _change_value(attribute: Any, rng: random.Random) -> None:
    kinds = onnx.AttributeProto
    if attribute.type == kinds.INT:
        attribute.i = rng.choice(NUMBERS)
    elif attribute.type == kinds.FLOAT:
        attribute.f = rng.choice(FLOATS)
    elif attribute.type == kinds.STRING:
        attribute.s = rng.choice(WORDS).encode("utf-8", "surrogatepass")
    elif attribute.type == kinds.INTS:
        if attribute.ints and rng.random() < 0.5:
            attribute.ints[rng.randrange(len(attribute.ints))] = rng.choice(NUMBERS)
        else:
            rng.choice([_drop, _duplicate])(attribute.ints, rng)
    elif attribute.type == kinds.TENSOR:
        _change_tensor(attribute.t, rng)


def change_attributes(model: Any, rng: random.Random) -> None:
    """Change, drop, repeat, invent or retype an attribute."""
    node = _any_node(model, rng)
    if node is None:
        return
    what = rng.randrange(6)
    if what == 0 or not node.attribute:
        names = ["axis", "pads", "kernel_shape", "mode", "alpha", "to", "perm", "unknown"]
        made = rng.choice([1, -1, 2.5, [1, 2], "text", [0.5], 2**40])
        node.attribute.append(helper.make_attribute(rng.choice(names), made))
    elif what == 1:
        _drop(node.attribute, rng)
    elif what == 2:
        rng.choice(list(node.attribute)).type = rng.randrange(0, 15)
    elif what == 3:
        rng.choice(list(node.attribute)).name = rng.choice(["axis", "axes", "", "value"])
    else:
        _change_value(rng.choice(list(node.attribute)), rng)


def _change_tensor(tensor: Any, rng: random.Random) -> None:
    what = rng.randrange(6)
    if what == 0 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(DIMS)
    elif what == 1:
        tensor.dims.append(rng.choice(DIMS))
    elif what == 2:
        _drop(tensor.dims, rng)
    elif what == 3:
        tensor.data_type = rng.choice(ELEMENTS)
    elif what == 4:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
    else:
        data = bytearray(tensor.raw_data)
        for _ in range(rng.randrange(1, 5)):
            if data:
                data[rng.randrange(len(data))] = rng.randrange(256)
        tensor.raw_data = bytes(data)


def change_weights(model: Any, rng: random.Random) -> None:
    """Change an initializer's dimensions, type, bytes or name, drop or repeat it."""
    weights, what = model.graph.initializer, rng.randrange(8)
    if not weights:
        return
    if what == 0:
        _drop(weights, rng)
    elif what == 1:
        _duplicate(weights, rng)
    elif what == 2:
        rng.choice(list(weights)).name = rng.choice(_names(model))
    else:
        _change_tensor(rng.choice(list(weights)), rng)


def change_types(model: Any, rng: random.Random) -> None:
    """Change the declared type of an input, or which inputs there are."""
    graph, what = _any_graph(model, rng), rng.randrange(8)
    if not graph.input:
        return
    info = rng.choice(list(graph.input))
    tensor = info.type.tensor_type
    if what == 0:
        tensor.elem_type = rng.choice(ELEMENTS)
    elif what == 1:
        tensor.ClearField("shape")
    elif what == 2:
        _drop(tensor.shape.dim, rng)
    elif what == 3:
        tensor.shape.dim.add().dim_value = rng.choice(DIMS)
    elif what == 4:
        info.name = rng.choice(_names(model))
    elif what == 5:
        rng.choice([_drop, _duplicate])(graph.input, rng)
    elif what == 6:
        info.type.Clear()
    elif tensor.shape.dim:
        dim = rng.choice(list(tensor.shape.dim))
        dim.dim_value = rng.choice(DIMS)


def change_versions(model: Any, rng: random.Random) -> None:
    """Change IR version and opsets."""
    what = rng.randrange(4)
    if what == 0:
        model.ir_version = rng.choice([-1, 0, 1, 3, 8, 13, 14, 99])
    elif what == 1:
        _drop(model.opset_import, rng)
    elif what == 2:
        model.opset_import.append(
            helper.make_opsetid(rng.choice(["", "ai.onnx", "a.b"]), rng.randrange(1, 30))
        )
    elif model.opset_import:
        rng.choice(list(model.opset_import)).version = rng.choice([-1, 0, 1, 6, 9, 13, 22, 25, 28])


CHANGES: tuple[Callable[[Any, random.Random], None], ...] = (
    change_inputs,
    change_outputs,
    change_nodes,
    change_attributes,
    change_attributes,
    change_weights,
    change_types,
    change_versions,
)


def damage_bytes(content: bytes, rng: random.Random) -> bytes:
    """Return the bytes of a file flipped, cut, doubled or cut short in places."""
    data = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at, what = rng.randrange(len(data) + 1), rng.randrange(4)
        if what == 0 and at < len(data):
            data[at] = rng.randrange(256)
        elif what == 1:
            del data[at : at + rng.randrange(1, 9)]
        elif what == 2:
            data[at:at] = data[at : at + rng.randrange(1, 9)]
        elif len(data) > 1:
            del data[max(at, len(data) // 2) :]
    return bytes(data)


# How often a file is damaged, and not a message of it.
SHARE_OF_BYTES = 0.15


def mutate(model: Any, seed: int) -> bytes:
    """Return the bytes of a damaged copy; equal seeds give equal damage."""
    rng = random.Random(seed)
    content = bytes(model.SerializeToString())
    if rng.random() < SHARE_OF_BYTES:
        return damage_bytes(content, rng)
    copy = onnx.ModelProto.FromString(content)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        rng.choice(CHANGES)(copy, rng)
    return bytes(copy.SerializeToString())
