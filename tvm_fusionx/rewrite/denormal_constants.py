"""Make zeros of constants' elements that are below the smallest normal number.

Training wears weights down to such numbers: of one layer of a published detector two thirds. They
add nothing to a sum that has a normal number in it, and many processors take 150 cycles for each.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from tvm_fusionx.ecg.graph import CONSTANT, Graph

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Bits:
    """A floating-point type as its bits: a denormal has an exponent of zero, and is not zero."""

    word: type[np.unsignedinteger]
    sign: int
    exponent: int


# Halves are left out: their denormals begin at 6e-5, models hold such numbers, and kernels compute
# with them in float32, where they are normal.
_BITS = {
    "float32": _Bits(np.uint32, 0x80000000, 0x7F800000),
    "float64": _Bits(np.uint64, 0x8000000000000000, 0x7FF0000000000000),
}

# Elements looked at in one go: their exponents stay in the second-level cache, 256 KB of float32.
_PIECE = 1 << 16


def flush_constants(graph: Graph, since: int = 0) -> int:
    """Put zeros in the place of denormal elements of constants; return how many constants changed.

    Parameters
    ----------
    graph
        Changed in place. Constants without denormals are read once, and never copied.
    since
        A mark of the graph (``Graph.mark``): older constants are not looked at.
    """
    changed = 0
    for node in graph.topological():
        if node.op != CONSTANT or node.number <= since or not has_denormals(node.payload):
            continue
        graph.replace(node[0], graph.constant(without_denormals(node.payload)))
        changed += 1
    if changed:
        graph.prune()
        logger.info("%d constants had elements below the smallest normal number", changed)
    return changed


def has_denormals(array: np.ndarray) -> bool:
    """Tell whether an array of float32 or float64 holds denormal numbers; of others, no."""
    bits = _BITS.get(str(array.dtype))
    if bits is None or not array.flags.c_contiguous:
        return bits is not None and has_denormals(np.ascontiguousarray(array))
    words = array.reshape(-1).view(bits.word)
    exponent, sign = bits.word(bits.exponent), bits.word(bits.sign)
    found = np.empty(min(_PIECE, words.size), bits.word)
    for start in range(0, words.size, _PIECE):
        piece = words[start : start + _PIECE]
        exponents = np.bitwise_and(piece, exponent, out=found[: piece.size])
        if exponents.min() == 0 and bool(np.any((exponents == 0) & ((piece & ~sign) != 0))):
            return True
    return False


def without_denormals(array: np.ndarray) -> np.ndarray:
    """Return a copy with zeros of the same sign in the place of denormal numbers."""
    bits = _BITS[str(array.dtype)]
    words = np.ascontiguousarray(array).reshape(-1).view(bits.word)
    is_normal = (words & bits.word(bits.exponent)) != 0
    flushed = np.where(is_normal, words, words & bits.word(bits.sign))
    return flushed.view(array.dtype).reshape(array.shape)
