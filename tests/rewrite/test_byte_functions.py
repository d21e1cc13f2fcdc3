"""What one byte decides is a table: the same numbers, and nothing else becomes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.expressions.look_up import register_look_up
from tvm_fusionx.expressions.round_even import ROUND_EVEN, register_rounding
from tvm_fusionx.rewrite.byte_functions import LOOK_UP, look_up_bytes

SCALE, ZERO = 0.125, 5


def _read(x: Any, scale: float = SCALE, zero: int = ZERO) -> Any:
    return relay.qnn.op.dequantize(x, relay.const(scale), relay.const(zero, "int32"))


def _quantized(x: Any, scale: float = SCALE, zero: int = ZERO, dtype: str = "uint8") -> Any:
    register_rounding()
    register_look_up()
    limits = np.iinfo(dtype)
    rounded = relay.Call(relay.op.get(ROUND_EVEN), [x / relay.const(scale)])
    low, high = int(limits.min), int(limits.max)
    return relay.cast(relay.clip(rounded + relay.const(float(zero)), low, high), dtype)


def _gate(x: Any, dtype: str = "uint8") -> Any:
    """Return x * sigmoid(x), with a quantization of the sigmoid, as tools write it."""
    gate = _read(_quantized(relay.sigmoid(_read(x)), 1 / 255, 0), 1 / 255, 0)
    return _quantized(_read(x) * gate, dtype=dtype)


def _expected(x: np.ndarray, dtype: str) -> np.ndarray:
    real = (x.astype("float32") - ZERO) * np.float32(SCALE)
    gate = np.clip(np.rint(1 / (1 + np.exp(-real)) / np.float32(1 / 255)), 0, 255)
    product = real * (gate * np.float32(1 / 255)).astype("float32")
    limits = np.iinfo(dtype)
    rounded = np.rint(product / np.float32(SCALE)) + ZERO
    return np.clip(rounded, limits.min, limits.max).astype(dtype)


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_a_gate_with_three_quantizations_is_one_table(dtype: str) -> None:
    found = graph(_gate(var("x", 2, 8, dtype=dtype), dtype))
    assert look_up_bytes(found) == 2
    (node,) = found.calls()
    assert node.op == LOOK_UP
    table = node.operands[1].array
    bits = np.arange(256, dtype="uint8")
    assert table.dtype == dtype
    assert np.array_equal(table, _expected(bits.view(dtype), dtype))
    assert look_up_bytes(found) == 0


def _softmax(x: Any) -> Any:
    return _quantized(relay.nn.softmax(_read(x)))


OTHERS: dict[str, Callable[[Any], Any]] = {
    "cheaper as it is": lambda x: _quantized(relay.nn.relu(_read(x)), 2 * SCALE),
    "of two tensors": lambda x: _quantized(
        relay.sigmoid(_read(x)) * _read(var("other", 2, 8, dtype="uint8"))
    ),
    "not element by element": _softmax,
    "a scale for each channel": lambda x: _quantized(relay.sigmoid(_read(x)) * const(8)),
    "floats": lambda x: relay.sigmoid(_read(x)),
    "of floats": lambda _: _quantized(relay.sigmoid(var("y", 2, 8))),
    "larger than the bytes": lambda x: _quantized(
        relay.broadcast_to(relay.sigmoid(_read(x)), (4, 2, 8))
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_other_quantizations_stay(case: str) -> None:
    found = graph(OTHERS[case](var("x", 2, 8, dtype="uint8")))
    before = [node.op for node in found.calls()]
    assert look_up_bytes(found) == 0
    assert [node.op for node in found.calls()] == before


def test_numbers_that_are_dequantized_are_numbers() -> None:
    """A learnt factor and a learnt shift of all elements, each stored as a byte."""
    factor = _read(relay.const(np.array([3], "int8")), 0.5, 0)
    shift = _read(relay.const(np.array([7], "int8")), 0.25, 0)
    scaled = _read(_quantized(_read(var("x", 2, 8, dtype="uint8")) * factor))
    found = graph(_quantized(_read(_quantized(scaled + shift)) * factor))
    assert look_up_bytes(found) == 2
    (node,) = found.calls()
    assert node.op == LOOK_UP

    def rounded(real: np.ndarray) -> np.ndarray:
        return np.clip(np.rint(real / SCALE) + ZERO, 0, 255)

    def read(x: np.ndarray) -> np.ndarray:
        return (x - ZERO) * SCALE

    first = rounded(read(np.arange(256.0)) * 1.5)
    expected = rounded(read(rounded(read(first) + 1.75)) * 1.5)
    assert np.array_equal(node.operands[1].array, expected.astype("uint8"))


def test_what_else_reads_a_step_on_the_way_keeps_it() -> None:
    x = var("x", 2, 8, dtype="uint8")
    real = relay.sigmoid(_read(x))
    found = graph(relay.Tuple([_quantized(real), real]))
    assert look_up_bytes(found) == 1
    assert [node.op for node in found.calls()].count("sigmoid") == 1
