from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import const, graph, var
from tvm_fusionx.layout.blocked_convolution import (
    integer_chunk,
    pack_integer_weights,
    why_not_blocked,
)
from tvm_fusionx.layout.convolution import pack_convolutions
from tvm_fusionx.layout.dense import pack_integers, why_not_constant
from tvm_fusionx.layout.integers import why_not_integers
from tvm_fusionx.schedules import describe_cpu, resolve_target

VNNI = "llvm -mcpu=icelake-server"
# Adds two products in 16 bits.
BYTE_PAIRS = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a72"
# Multiplies eight bytes by eight, with vectors of four sums.
MATRICES = "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod,+i8mm"


def _reason(expr: Any, target: str = VNNI) -> str | None:
    (node,) = graph(expr).calls()
    return why_not_integers(node, describe_cpu(resolve_target(target)))


def _dense(depth: int) -> Any:
    return relay.nn.dense(var("x", 4, depth), const(8, depth))


def _conv(inputs: int, outputs: int, **how: Any) -> Any:
    weights = const(outputs, inputs // how.get("groups", 1), 3, 3)
    return relay.nn.conv2d(var("x", 1, inputs, 5, 5), weights, padding=(1, 1), **how)


@pytest.mark.parametrize(
    "expr",
    [
        *(_dense(16), _conv(8, 16), _conv(12, 24), _conv(3, 16), _conv(16, 16, groups=16)),
        relay.nn.batch_matmul(var("x", 2, 3, 8), var("y", 2, 5, 8)),
        *(_dense(10), _conv(6, 16), _conv(8, 12), _conv(8, 10), _conv(16, 16, groups=4)),
    ],
)
def test_products_with_a_layout(expr: Any) -> None:
    assert _reason(expr) is None


@pytest.mark.parametrize(
    ("expr", "because"),
    [
        (_conv(8, 16, groups=8), "several channels of each one"),
        (_conv(16, 1), "one output"),
        (relay.nn.dense(var("x", 169, 8), const(1, 8)), "one output"),
        (relay.nn.matmul(var("x", 3, 8), var("y", 8, 5)), "has no layout"),
        (relay.nn.batch_matmul(var("x", 1, 3, 8), var("y", 2, 5, 8)), "shared by 2 right ones"),
    ],
)
def test_reasons(expr: Any, because: str) -> None:
    assert because in str(_reason(expr))


def test_a_processor_without_the_instruction() -> None:
    assert "no instruction" in str(_reason(_dense(16), "llvm -mcpu=x86-64"))


def test_two_activations_leave_no_room_in_words() -> None:
    """Both sides may be -128 anywhere, and nobody knows when it is compiled."""
    sides = [relay.qnn.op.dequantize(var(name, 4, 8, dtype="int8"), *_scale()) for name in "xy"]
    node = next(each for each in graph(relay.nn.dense(*sides)).calls() if each.op == "nn.dense")
    reason = why_not_integers(node, describe_cpu(resolve_target(BYTE_PAIRS)))
    assert reason is not None
    assert "both sides may be -128" in reason
    assert why_not_integers(node, describe_cpu(resolve_target(VNNI))) is None


def _scale() -> tuple[Any, Any]:
    return relay.const(np.float32(0.5)), relay.const(np.int32(0))


@pytest.mark.parametrize("most", [1, 2])
def test_weights_that_leave_no_room_in_words_stay_as_they_are(most: int) -> None:
    """Whichever pass made such a product, it has no layout."""
    for shape in ((8, 16), (8, 16, 3, 3)):
        array = np.ones(shape, "int8")
        array.reshape(8, -1)[:, :most] = -128
        data = var("x", *([4, 16] if len(shape) == 2 else [1, 16, 5, 5]), dtype="int8")
        product = relay.nn.dense if len(shape) == 2 else relay.nn.conv2d
        (node,) = graph(product(data, relay.const(array), out_dtype="int32")).calls()
        dot = describe_cpu(resolve_target(BYTE_PAIRS)).dot
        why_not = why_not_constant if len(shape) == 2 else why_not_blocked
        reason = why_not(node, dot)
        assert reason is None if most == 1 else "weights of -128" in str(reason)


@pytest.mark.parametrize(("shape", "width", "depth"), [((6, 8), 4, 4), ((8, 6), 8, 2)])
def test_panels_hold_every_weight(shape: Sequence[int], width: int, depth: int) -> None:
    columns, length = shape
    array = np.arange(columns * length, dtype="int16").reshape(shape) + 1
    packed = pack_integers(array, width, depth)
    assert packed.shape == (-(-columns // width), length // depth, width, depth)
    for n, k in np.ndindex(columns, length):
        assert packed[n // width, k // depth, n % width, k % depth] == array[n, k]
    assert np.count_nonzero(packed) == array.size


def test_chunks_hold_every_weight() -> None:
    array = np.random.default_rng(0).integers(-128, 128, (8, 16, 3, 2)).astype("int8")
    packed = pack_integer_weights(array, groups=2, block=4, depth=4)
    assert packed.shape == (2, 2, 3, 2, 2, 4, 4)
    for o, i, y, x in np.ndindex(*array.shape):
        assert packed[o // 4, i // 8, y, x, i % 8 // 4, o % 4, i % 4] == array[o, i, y, x]


@pytest.mark.parametrize(("dtype", "layout"), [("int8", "NCHW8c"), ("float32", "NCHW4c")])
def test_a_chunk_holds_what_an_instruction_multiplies(dtype: str, layout: str) -> None:
    weights = const(16, 16, 3, 3, dtype=dtype)
    sums = "int32" if dtype == "int8" else dtype
    # Of stride 2, for others may become minimal filtering.
    body = relay.nn.conv2d(
        var("x", 1, 16, 5, 5, dtype=dtype), weights, padding=(1, 1), strides=(2, 2), out_dtype=sums
    )
    packed = graph(body)
    assert pack_convolutions(packed, describe_cpu(resolve_target(MATRICES))) == 1
    (node,) = (each for each in packed.calls() if "NCHWc" in each.op)
    assert node.attrs["out_layout"] == layout


@pytest.mark.parametrize(("dtype", "packed"), [("int16", 1), ("uint8", 0)])
def test_depthwise_convolutions_multiply_short_integers(dtype: str, packed: int) -> None:
    weights = const(16, 1, 3, 3, dtype="int16" if packed else "int8")
    image = var("x", 1, 16, 5, 5, dtype=dtype)
    body = relay.nn.conv2d(image, weights, padding=(1, 1), groups=16, out_dtype="int32")
    found = graph(body)
    assert pack_convolutions(found, describe_cpu(resolve_target(VNNI))) == packed
    ops = [each.op for each in found.calls()]
    assert ("nn.contrib_depthwise_conv2d_NCHWc" in ops) == bool(packed)


@pytest.mark.parametrize(
    ("outputs", "vector", "target", "expected"),
    [
        (64, 16, VNNI, (16, 0)),
        (24, 16, VNNI, (8, 0)),
        # Vectors of eight and of four sums, where one of twelve has no instruction.
        (12, 16, VNNI, (4, 0)),
        (10, 16, VNNI, (16, 6)),
        (21, 16, VNNI, (16, 11)),
        (1, 16, VNNI, (4, 3)),
        (16, 8, MATRICES, (8, 0)),
        (6, 8, MATRICES, (4, 2)),
    ],
)
def test_chunks_that_an_instruction_sums(
    outputs: int, vector: int, target: str, expected: tuple[int, int]
) -> None:
    instruction = describe_cpu(resolve_target(target)).dot
    assert instruction is not None
    assert integer_chunk(outputs, vector, instruction) == expected
