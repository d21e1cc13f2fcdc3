"""Blocks around products with weights in blocks, and what they compute, by plain operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relay

from tests.relay_modules import var
from tvm_fusionx.expressions.block_weights import BLOCK, dense, rounded_dense
from tvm_fusionx.gguf.block_tensor import BlockTensor
from tvm_fusionx.layout.block_weights import in_panels, in_word_panels

Array = np.ndarray[Any, Any]

KINDS = ("Q4_0", "Q4_1", "Q8_0")

# The bits of 1 as a half, and of two nibbles that differ.
ONE, NIBBLES = 0x3C00, 0x35


def drawn(kind: str, rows: int, length: int, seed: int = 0) -> BlockTensor:
    """Return random weights: scales of about 0.1, levels of any value."""
    draw = np.random.default_rng(seed)
    blocks = length // BLOCK

    def halves() -> Array:
        return (0.1 * draw.standard_normal((rows, blocks))).astype("float16").view("uint16")

    if kind == "Q8_0":
        levels = draw.integers(-128, 128, (rows, blocks, BLOCK)).astype("int8")
        return BlockTensor(levels, halves())
    levels = draw.integers(0, 256, (rows, blocks, BLOCK // 2)).astype("uint8")
    return BlockTensor(levels, halves(), halves() if kind == "Q4_1" else None)


def product(
    rows: int,
    parts: tuple[Array, ...],
    length: int,
    post: Callable[[Any], Any] = lambda y: y,
    operator: Callable[[Any, Any], Any] = dense,
) -> relay.Expr:
    """Return data ``x`` times a weight that is given, of shapes such as `parts`."""
    names = ("levels", "scales", "minima")
    weight = [
        var(name, *part.shape, dtype=str(part.dtype))
        for name, part in zip(names, parts, strict=False)
    ]
    return post(operator(var("x", rows, length), weight))


def rounded(x: Array, size: int = BLOCK) -> Array:
    """Return data rounded to 8 bits in blocks, in double precision."""
    blocks = x.reshape(len(x), -1, size).astype("float32")
    most = np.abs(blocks).max(-1, keepdims=True)
    levels = np.rint(blocks * (np.float32(127) / np.maximum(most, np.float32(1e-30))))
    return (levels.astype("float64") * (most * np.float32(1 / 127))).reshape(x.shape)


def rounded_case(rows: int, panels: int, width: int, blocks: int, kind: str) -> tuple[Any, Any]:
    """Return a product of rounded data with constant words, and the same by TVM's operators."""
    weight = drawn(kind, panels * width, blocks * BLOCK)
    levels, *shared = weight.arrays
    words = [in_word_panels(levels, width), *(in_panels(part, width) for part in shared)]
    x = var("x", rows, blocks * BLOCK)
    parts = relay.reshape(x, (rows, blocks, BLOCK))
    most = relay.max(relay.abs(parts), axis=2, keepdims=True)
    level = relay.round(parts * (relay.const(np.float32(127)) / most))
    data = relay.reshape(level * (most * relay.const(np.float32(1 / 127))), (rows, -1))
    made = rounded_dense(x, [relay.const(part, str(part.dtype)) for part in words])
    return made, relay.nn.dense(data, relay.const(weight.floats()))


def case(rows: int, panels: int, width: int, blocks: int, kind: str) -> tuple[Any, Any]:
    """Return a product of integers that are 0 or 1, and the same by operators of TVM's own."""
    count = BLOCK if kind == "Q8_0" else BLOCK // 2
    dtype = "int8" if kind == "Q8_0" else "uint8"
    levels = var("levels", panels, blocks, count, width, dtype=dtype)
    levels = levels * _const(1 if kind == "Q8_0" else NIBBLES, dtype)
    names = ("scales", "minima") if kind == "Q4_1" else ("scales",)
    bits = [
        var(name, panels, blocks, width, dtype="uint16") + _const(ONE, "uint16") for name in names
    ]
    x = var("x", rows, blocks * BLOCK)
    halves = [
        relay.expand_dims(relay.cast(relay.reinterpret(each, "float16"), "float32"), 2)
        for each in bits
    ]
    numbers = relay.cast(levels, "int32")
    if kind != "Q8_0":
        low = relay.bitwise_and(numbers, relay.const(15))
        numbers = relay.concatenate([low, relay.right_shift(numbers, relay.const(4))], axis=2)
    if kind == "Q4_0":
        numbers = numbers - relay.const(8)
    weight = relay.cast(numbers, "float32") * halves[0]
    weight = weight + halves[1] if len(halves) > 1 else weight
    weight = relay.reshape(relay.transpose(weight, (0, 3, 1, 2)), (-1, blocks * BLOCK))
    return dense(x, [levels, *bits]), relay.nn.dense(x, weight)


def _const(number: int, dtype: str) -> relay.Constant:
    """Return a constant of one axis: TVM writes no scalar of so few bits into a kernel."""
    return relay.const(np.asarray([number], dtype))
