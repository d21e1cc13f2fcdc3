"""Control flow and sequences, resolved while translating: what remains is a flat graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.control_flow import (
    KNOWN_COUNT,
    MOST_ITERATIONS,
    run_if,
    run_loop,
    scalar_tensor,
    stack,
)
from tvm_fusionx.frontend.converters.slicing import split
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.scope import Scope, Translator
from tvm_fusionx.frontend.values import Tensor, Value

Structure = Callable[[Translator, Node, Scope], Sequence[Value]]

SCAN_WITH_BATCH = 8


def _sequence(node: Node, position: int = 0) -> list[Tensor]:
    value = node.inputs[position]
    if not isinstance(value, list):
        raise node.refuse("a sequence", "a tensor")
    return value


def _element(translation: Translator, node: Node, tensor: Tensor, axis: int, place: int) -> Value:
    if tensor.array is not None:
        return Tensor.from_array(np.take(tensor.array, place, axis))
    part = relay.strided_slice(tensor.expr, [place], [place + 1], axes=[axis])
    shape = [dim for i, dim in enumerate(tensor.shape) if i != axis]
    return translation.seal(node, [relay.reshape(part, shape)])[0]


def run_scan(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Unroll a scan; its length is a dimension of its inputs."""
    body = node.attribute("body")
    if node.version == SCAN_WITH_BATCH:
        return _run_batched_scan(translation, node, scope)
    scanned = int(node.attribute("num_scan_inputs"))
    count = len(node.inputs) - scanned
    outputs = len(body.output) - count
    axes = node.attribute("scan_input_axes") or [0] * scanned
    backward = node.attribute("scan_input_directions") or [0] * scanned
    tensors = [node.tensor(count + i) for i in range(scanned)]
    axes = [axis % tensor.rank for axis, tensor in zip(axes, tensors, strict=True)]
    length = tensors[0].shape[axes[0]]
    if not 0 < length <= MOST_ITERATIONS:
        raise node.refuse(f"1 to {MOST_ITERATIONS} iterations", str(length), KNOWN_COUNT)
    carried = list(node.inputs[:count])
    collected: list[list[Value]] = [[] for _ in range(outputs)]
    for step in range(length):
        inner = Scope(scope)
        places = [length - 1 - step if is_back else step for is_back in backward]
        elements = [
            _element(translation, node, tensor, axis, place)
            for tensor, axis, place in zip(tensors, axes, places, strict=True)
        ]
        for info, value in zip(body.input, [*carried, *elements], strict=True):
            inner[info.name] = value
        results = translation.run_graph(body, inner, f"{node.name}/{step}/")
        carried = list(results[:count])
        for parts, value in zip(collected, results[count:], strict=True):
            parts.append(value)
    out_axes = node.attribute("scan_output_axes") or [0] * outputs
    out_backward = node.attribute("scan_output_directions") or [0] * outputs
    stacked = []
    for parts, axis, is_back in zip(collected, out_axes, out_backward, strict=True):
        rank = parts[0].rank + 1 if isinstance(parts[0], Tensor) else 1
        stacked.append(stack(translation, node, parts[::-1] if is_back else parts, axis % rank))
    return carried + stacked


def _run_batched_scan(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Opset 8 scans each batch entry by itself; sequence lengths are its first input."""
    body = node.attribute("body")
    scanned = int(node.attribute("num_scan_inputs"))
    values = [node.tensor(i) for i in range(1, len(node.inputs))]
    count = len(values) - scanned
    if node.has(0):
        raise node.refuse("a scan over the whole length", "sequence lengths", KNOWN_COUNT)
    results_by_batch = []
    for batch in range(values[0].shape[0]):
        entry = [_element(translation, node, value, 0, batch) for value in values]
        carried = entry[:count]
        collected: list[list[Value]] = [[] for _ in body.output[count:]]
        for step in range(values[-1].shape[1]):
            inner = Scope(scope)
            elements = [
                _element(translation, node, t, 0, step)
                for t in entry[count:]
                if isinstance(t, Tensor)
            ]
            for info, value in zip(body.input, [*carried, *elements], strict=True):
                inner[info.name] = value
            results = translation.run_graph(body, inner, f"{node.name}/{batch}/{step}/")
            carried = list(results[:count])
            for parts, value in zip(collected, results[count:], strict=True):
                parts.append(value)
        results_by_batch.append(
            carried + [stack(translation, node, parts, 0) for parts in collected]
        )
    return [stack(translation, node, parts, 0) for parts in zip(*results_by_batch, strict=True)]


def make_sequence(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Return the inputs as a sequence."""
    return [[node.tensor(i) for i in range(len(node.inputs))]]


def make_empty_sequence(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Return a sequence without items."""
    return [[]]


def insert_in_sequence(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Return the sequence with an item more."""
    items = list(_sequence(node))
    items.insert(int(node.scalar(2)) if node.has(2) else len(items), node.tensor(1))
    return [items]


def erase_from_sequence(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Return the sequence with an item less."""
    items = list(_sequence(node))
    del items[int(node.scalar(1)) if node.has(1) else -1]
    return [items]


def item_of_sequence(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Return one item."""
    return [_sequence(node)[int(node.scalar(1))]]


def length_of_sequence(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Return the number of items, which is known."""
    return [scalar_tensor(len(_sequence(node)), "int64")]


def concat_sequence(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Join the items along an axis, an old one or a new one."""
    items = _sequence(node)
    axis = int(node.attribute("axis"))
    if node.attribute("new_axis", 0):
        return [stack(translation, node, items, axis % (items[0].rank + 1))]
    if all(item.array is not None for item in items):
        return [Tensor.from_array(np.concatenate([item.array for item in items], axis))]
    return translation.seal(node, [relay.concatenate([item.expr for item in items], axis)])


def split_to_sequence(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Cut a tensor into the items of a sequence."""
    axis, keeps = node.axis(0), bool(node.attribute("keepdims", 1))
    size = node.shape()[axis]
    sizes = [1] * size
    if node.has(1):
        keeps = True
        sizes = node.ints(1)
        if node.tensor(1).rank == 0:
            each = sizes[0]
            sizes = [min(each, size - i) for i in range(0, size, each)]
    parts = split(node.expr(), sizes, axis)
    if not keeps:
        parts = [relay.squeeze(part, [axis]) for part in parts]
    return [[part for part in translation.seal(node, parts) if isinstance(part, Tensor)]]


def make_optional(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Return the input, or nothing."""
    return [node.inputs[0] if node.inputs else None]


def has_optional(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Tell whether there is content."""
    return [scalar_tensor(bool(node.inputs) and node.inputs[0] is not None, "bool")]


def pass_through(translation: Translator, node: Node, scope: Scope) -> list[Value]:
    """Return the input itself."""
    return [node.inputs[0]]


STRUCTURES: dict[str, Structure] = {
    "ConcatFromSequence": concat_sequence,
    "Identity": pass_through,
    "If": run_if,
    "Loop": run_loop,
    "Optional": make_optional,
    "OptionalGetElement": pass_through,
    "OptionalHasElement": has_optional,
    "Scan": run_scan,
    "SequenceAt": item_of_sequence,
    "SequenceConstruct": make_sequence,
    "SequenceEmpty": make_empty_sequence,
    "SequenceErase": erase_from_sequence,
    "SequenceInsert": insert_in_sequence,
    "SequenceLength": length_of_sequence,
    "SplitToSequence": split_to_sequence,
}
