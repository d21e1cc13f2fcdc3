"""Signal processing."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relay

from tvm_fusionx.frontend.converters.linear import matmul
from tvm_fusionx.frontend.converters.registry import converter
from tvm_fusionx.frontend.converters.shapes import reshape, transpose
from tvm_fusionx.frontend.converters.slicing import slice_axis, take
from tvm_fusionx.frontend.node import Node
from tvm_fusionx.frontend.values import constant

AXIS_IS_INPUT_SINCE = 20
# A transform is a product with its matrix: this many elements are half a gigabyte of float32.
MOST_ELEMENTS = 1 << 27


def _angles(node: Node, rows: int, columns: int, length: int) -> Any:
    """Return 2 pi j k / length for j < rows and k < columns."""
    if not 0 < rows * columns <= MOST_ELEMENTS:
        raise node.refuse(f"a transform of at most {MOST_ELEMENTS} products", f"{rows}x{columns}")
    # The remainder first: an angle of many turns would lose its digits.
    turns = np.outer(np.arange(rows), np.arange(columns)) % length
    return 2 * np.pi * turns / length


def forward_matrix(node: Node, used: int, bins: int, length: int, parts: int) -> Any:
    """Return the transform of `used` samples to `bins` bins, as [parts * used, 2 * bins]."""
    angle = _angles(node, used, bins, length)
    cosine, sine = np.cos(angle), np.sin(angle)
    return np.block([[cosine, -sine], [sine, cosine]][:parts])


def inverse_matrix(node: Node, used: int, length: int, parts: int) -> Any:
    """Return the inverse transform of `used` bins, as [parts * used, 2 * length]."""
    angle = _angles(node, used, length, length)
    cosine, sine = np.cos(angle) / length, np.sin(angle) / length
    return np.block([[cosine, sine], [-sine, cosine]][:parts])


def half_inverse_matrix(node: Node, used: int, length: int, parts: int) -> Any:
    """Return the inverse of half a spectrum to a real signal, as [parts * used, length].

    The other half is its mirror, so that each bin counts twice but for the first, and the middle
    one of an even length.
    """
    angle = _angles(node, used, length, length)
    bins = np.arange(used)[:, None]
    weight = np.where((bins == 0) | (2 * bins == length), 1.0, 2.0) / length
    return np.concatenate([np.cos(angle) * weight, -np.sin(angle) * weight][:parts])


@converter("DFT", through=20, because="TVM's kernel does not build")
def convert_dft(node: Node) -> Any:
    """Multiply by the matrix of the transform: exact, and fast for the short lengths models use."""
    shape, dtype = node.shape(), node.dtype()
    rank = len(shape)
    if node.version >= AXIS_IS_INPUT_SINCE:
        axis = int(node.scalar(2)) % rank if node.has(2) else rank - 2
    else:
        axis = node.axis(1)
    if axis == rank - 1 or shape[-1] not in (1, 2):
        raise node.refuse(
            "an axis before the last, which holds one or two parts", f"{axis} of {list(shape)}"
        )
    is_inverse = bool(node.attribute("inverse", 0))
    is_half = bool(node.attribute("onesided", 0))
    size, parts = shape[axis], shape[-1]
    default = 2 * (size - 1) if is_inverse and is_half else size
    length = int(node.scalar(1)) if node.has(1) else default
    if length < 1:
        raise node.refuse("a length of at least 1", str(length))
    used = min(size, length // 2 + 1 if is_inverse and is_half else length)
    made = 2
    if not is_inverse:
        bins = length // 2 + 1 if is_half else length
        matrix = forward_matrix(node, used, bins, length, parts)
    elif is_half:
        made, matrix = 1, half_inverse_matrix(node, used, length, parts)
    else:
        matrix = inverse_matrix(node, used, length, parts)
    matrix = matrix.astype(dtype)
    x = slice_axis(node.expr(), axis, range(used), size)
    # Bring the axis to the end, its complex parts just before it: [..., parts, used].
    order = [i for i in range(rank - 1) if i != axis] + [rank - 1, axis]
    lead = tuple(shape[i] for i in order[:-2])
    moved = relay.reshape(transpose(x, order), (*lead, parts * used))
    product = matmul(moved, (*lead, parts * used), constant(matrix), matrix.shape)
    split = relay.reshape(product, (*lead, made, matrix.shape[1] // made))
    return transpose(split, np.argsort(order))


@converter("STFT", through=17)
def convert_stft(node: Node) -> Any:
    """Cut a signal into frames, weigh them by a window, and transform each."""
    shape, dtype = node.shape(), node.dtype()
    if len(shape) == 2:
        shape = (*shape, 1)
    batch, size, parts = shape
    step, is_half = int(node.scalar(1)), bool(node.attribute("onesided", 1))
    length = node.shape(2)[0] if node.has(2) else size
    length = int(node.scalar(3)) if node.has(3) else length
    if step < 1 or not 0 < length <= size or (node.has(2) and node.shape(2) != (length,)):
        raise node.refuse(
            "a step of at least 1, and a window as long as a frame, which fits into the signal",
            f"step {step}, frames of {length} in {size}, "
            + (f"a window of {list(node.shape(2))}" if node.has(2) else "no window"),
        )
    if is_half and parts == 2:
        raise node.refuse("a real signal, whose spectrum has two equal halves", "a complex one")
    frames = (size - length) // step + 1
    bins = length // 2 + 1 if is_half else length
    matrix = forward_matrix(node, length, bins, length, parts)
    places = np.arange(frames)[:, None] * step + np.arange(length)[None, :]
    x = take(reshape(node.expr(), shape), places, 1)
    known = node.tensor(2).array if node.has(2) else np.ones(length)
    if known is not None:
        # Weighing a frame is weighing the rows of the matrix.
        matrix = matrix * np.tile(known, parts)[:, None]
    else:
        x = x * reshape(node.expr(2), (1, 1, length, 1))
    matrix = matrix.astype(dtype)
    lead = (batch, frames)
    moved = reshape(transpose(x, (0, 1, 3, 2)), (*lead, parts * length))
    product = matmul(moved, (*lead, parts * length), constant(matrix), matrix.shape)
    return transpose(reshape(product, (*lead, 2, bins)), (0, 1, 3, 2))
