"""Two moves with elementwise work between them become one, or none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg.numpy_operators import evaluate
from tvm_fusionx.rewrite.moves_around import merge_moves

X = var("x", 2, 3, 4)
THERE, BACK = (2, 0, 1), (1, 2, 0)


def _quantized(value: Any) -> Any:
    """Return what a quantization and the dequantization behind it make of a value."""
    scaled = relay.nn.relu(value) * relay.const(40.0)
    whole = relay.cast(relay.clip(relay.floor(scaled), 0, 255), "uint8")
    scale, zero = relay.const(np.float32(0.025)), relay.const(np.int32(3))
    return relay.qnn.op.dequantize(whole, scale, zero, axis=1)


def _moves(found: Any) -> list[str]:
    return [node.op for node in found.calls() if node.op in ("transpose", "reshape")]


def _value(found: Any) -> np.ndarray:
    numbers = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    values: dict[Any, np.ndarray] = {}
    for node in found.topological():
        if node.op == "input":
            values[node[0]] = numbers
        elif node.op == "constant":
            values[node[0]] = node[0].array
        elif node.op == "qnn.dequantize":
            integers, scale, zero = (values[each] for each in node.operands)
            values[node[0]] = ((integers.astype("int32") - zero) * scale).astype("float32")
        else:
            values[node[0]] = evaluate(node, [values[each] for each in node.operands])[0]
    return values[found.outputs[0]]


@pytest.mark.parametrize(
    ("there", "back", "left"),
    [
        (lambda x: relay.transpose(x, THERE), lambda x: relay.transpose(x, BACK), []),
        (
            lambda x: relay.transpose(x, THERE),
            lambda x: relay.transpose(x, THERE),
            ["transpose"],
        ),
        (lambda x: relay.reshape(x, (6, 4)), lambda x: relay.reshape(x, (2, 3, 4)), []),
        (
            lambda x: relay.transpose(relay.reshape(x, (6, 4)), (1, 0)),
            lambda x: relay.reshape(relay.transpose(x, (1, 0)), (2, 3, 4)),
            [],
        ),
    ],
    ids=["undone", "twice", "shapes", "both"],
)
@pytest.mark.parametrize("between", [relay.tanh, _quantized], ids=["function", "quantized"])
def test_moves_around_elementwise_work_are_merged(
    there: Any, back: Any, left: list[str], between: Any
) -> None:
    found = graph(back(between(there(X))))
    before = _value(found)
    assert merge_moves(found) > 0
    assert _moves(found) == left
    np.testing.assert_array_equal(_value(found), before)
    assert merge_moves(found) == 0


def test_moves_stay_around_what_is_not_elementwise() -> None:
    turned = relay.transpose(X, THERE)
    several_scales = relay.const(np.linspace(1, 2, 3, dtype="float32"))
    for between in (
        relay.nn.softmax(turned),
        # Of two tensors.
        turned + relay.tanh(turned),
        # Scales lie along an axis, which would be another one.
        turned * several_scales,
    ):
        found = graph(relay.transpose(between, BACK))
        assert merge_moves(found) == 0


def test_moves_stay_where_another_reads_what_is_between() -> None:
    between = relay.tanh(relay.transpose(X, THERE))
    found = graph(relay.Tuple([relay.transpose(between, BACK), between]))
    assert merge_moves(found) == 0
