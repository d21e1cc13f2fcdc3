"""Blocks around products of bytes with packed weights, and what they are by numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import var
from tvm_fusionx.expressions.integer_products import register_integer_products
from tvm_fusionx.layout.blocked_convolution import pack_integer_weights
from tvm_fusionx.layout.dense import pack_integers
from tvm_fusionx.processors.tile_permission import may_use_tiles

# Four bytes of depth, as every instruction for bytes takes them.
WORD = 4
CHUNK = 16

TILES = "llvm -mtriple=x86_64-linux-gnu -mcpu=sapphirerapids -num-cores=2"
SEED = 4

Post = Callable[[Any], Any]

needs_tiles = pytest.mark.skipif(
    not may_use_tiles(), reason="/proc/cpuinfo has no amx_int8, or the system does not lend it"
)


def drawn(dtype: str, *shape: int) -> np.ndarray:
    """Return bytes of all values."""
    bounds = np.iinfo(dtype)
    generator = np.random.default_rng(SEED)
    return generator.integers(bounds.min, bounds.max + 1, shape).astype(dtype)


def scaled(y: Any) -> Any:
    """Return what a quantization makes of sums: bytes."""
    register_integer_products()
    real = relay.cast(y, "float32") * relay.const(np.float32(2.0**-9))
    return relay.cast(relay.clip(relay.round(real), 0, 255), "uint8")


def scaled_numbers(y: np.ndarray) -> np.ndarray:
    """Return :func:`scaled` of numbers: no multiple of a 512th is rounded by chance."""
    real = y.astype("float64") / 512
    away = np.sign(real) * np.floor(np.abs(real) + 0.5)
    return np.clip(away, 0, 255).astype("uint8")


def dense_of_bytes(
    rows: int,
    columns: int,
    terms: int,
    *,
    width: int = CHUNK,
    data: str = "uint8",
    post: Post = scaled,
) -> tuple[relay.Expr, list[np.ndarray], np.ndarray]:
    """Return a product of bytes, what it is given, and its exact sums."""
    register_integer_products()
    x, w = drawn(data, rows, terms), drawn("int8", columns, terms)
    packed = pack_integers(w, width, WORD)
    product = relay.nn.contrib_dense_pack(
        var("x", rows, terms, dtype=data),
        var("w", *packed.shape, dtype="int8"),
        weight_layout=f"NC{width}n{WORD}c",
        out_dtype="int32",
    )
    return post(product), [x, packed], x.astype("int32") @ w.astype("int32").T


def window_of_bytes(
    channels: int,
    size: tuple[int, int],
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    batch: int = 1,
    in_tiles: bool = True,
    post: Post = scaled,
) -> tuple[relay.Expr, list[np.ndarray], np.ndarray]:
    """Return a convolution of bytes in chunks of 16 channels, what it is given, and its sums."""
    register_integer_products()
    pad = (kernel - 1) * dilation // 2
    x, w = drawn("uint8", batch, channels, *size), drawn("int8", outputs, channels, kernel, kernel)
    chunks = channels // CHUNK
    blocked = np.ascontiguousarray(x.reshape(batch, chunks, CHUNK, *size).transpose(0, 1, 3, 4, 2))
    groups = (channels if in_tiles else CHUNK) // WORD
    packed = pack_integer_weights(w, groups, CHUNK, WORD)
    out = relay.nn.contrib_conv2d_nchwc(
        var("x", *blocked.shape, dtype="uint8"),
        var("w", *packed.shape, dtype="int8"),
        (stride, stride),
        (pad,) * 4,
        (dilation, dilation),
        1,
        outputs,
        (kernel, kernel),
        f"NCHW{CHUNK}c",
        f"OIHW{groups}i{CHUNK}o{WORD}i",
        f"NCHW{CHUNK}c",
        "int32",
    )
    sums = _convolved(x.astype("int32"), w.astype("int32"), pad, stride, dilation)
    shape = (batch, outputs // CHUNK, CHUNK, *sums.shape[2:])
    return post(out), [blocked, packed], sums.reshape(shape).transpose(0, 1, 3, 4, 2)


def _convolved(x: np.ndarray, w: np.ndarray, pad: int, stride: int, dilation: int) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    extent = (w.shape[2] - 1) * dilation
    rows, columns = ((size - extent - 1) // stride + 1 for size in padded.shape[2:])
    sums = np.zeros((len(x), len(w), rows, columns), "int32")
    for row in range(w.shape[2]):
        for column in range(w.shape[3]):
            top, left = row * dilation, column * dilation
            part = padded[:, :, top::stride, left::stride][:, :, :rows, :columns]
            sums += np.einsum("nchw,oc->nohw", part, w[:, :, row, column])
    return sums
