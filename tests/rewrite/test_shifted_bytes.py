"""Quantizations make shifted bytes where nothing else reads theirs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay

from tests.relay_modules import graph
from tvm_fusionx.ecg.graph import Graph
from tvm_fusionx.ecg.numpy_operators import evaluate
from tvm_fusionx.expressions.round_even import ROUND_EVEN, register_rounding
from tvm_fusionx.rewrite.shifted_bytes import shift_in_quantizations

X = np.linspace(-400.5, 400.5, 1603).astype("float32")


def _quantized(zero: float | None, low: float = 0, high: float = 255) -> Any:
    register_rounding()
    value = relay.Call(tvm.ir.Op.get(ROUND_EVEN), [relay.var("x", shape=X.shape)])
    if zero is not None:
        value = relay.add(value, relay.const(np.float32(zero)))
    return relay.cast(relay.clip(value, low, high), "uint8")


def _shifted(bytes_: Any, shift: int = -128) -> Any:
    wide = relay.add(relay.cast(bytes_, "int16"), relay.const(shift, "int16"))
    return relay.cast(wide, "int8")


def _value(found: Graph) -> np.ndarray:
    values: dict[Any, np.ndarray] = {}
    for node in found.topological():
        if node.op == "input":
            values[node[0]] = X
        elif node.op == "constant":
            values[node[0]] = node[0].array
        elif node.op == ROUND_EVEN:
            values[node[0]] = np.rint(values[node.operands[0]])
        else:
            values[node[0]] = evaluate(node, [values[each] for each in node.operands])[0]
    return values[found.outputs[0]]


@pytest.mark.parametrize("zero", [None, 0.0, 7.0, 128.0])
@pytest.mark.parametrize("bounds", [(0, 255), (3, 200)])
def test_a_quantization_makes_shifted_bytes(zero: float | None, bounds: tuple[int, int]) -> None:
    found = graph(_shifted(_quantized(zero, *bounds)))
    before = _value(found)
    assert shift_in_quantizations(found) == 1
    assert [node.op for node in found.calls()].count("cast") == 1
    after = _value(found)
    assert after.dtype == "int8"
    np.testing.assert_array_equal(after, before)


def test_bytes_that_others_read_stay() -> None:
    bytes_ = _quantized(3.0)
    both = relay.add(relay.cast(_shifted(bytes_), "int32"), relay.cast(bytes_, "int32"))
    assert shift_in_quantizations(graph(both)) == 0


def test_another_number_stays() -> None:
    assert shift_in_quantizations(graph(_shifted(_quantized(3.0), -100))) == 0


def test_what_is_not_rounded_stays() -> None:
    value = relay.cast(relay.clip(relay.var("x", shape=X.shape), 0, 255), "uint8")
    assert shift_in_quantizations(graph(_shifted(value))) == 0
