"""Small constant matrices applied to vectors, as sums that share what can be shared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import tir

# Stores a vector expression in a register and returns an expression that reads it.
Keep = Callable[[Any], Any]


def apply_matrix(matrix: np.ndarray, values: Sequence[Any], keep: Keep) -> list[Any]:
    """Return the expressions of ``matrix @ values``.

    Winograd's matrices evaluate polynomials at points that come in pairs x and -x, so that their
    rows (or columns, in the transposed ones) come in pairs whose entries are equal or opposite. Of
    a pair of rows only half sum and half difference are computed; a pair of columns reads the sum
    and the difference of its two values.

    Parameters
    ----------
    matrix
        The constant matrix.
    values
        One vector expression a column; each is read several times.
    keep
        Called with each shared sum.

    Returns
    -------
    list
        One vector expression a row.
    """
    columns = _paired_columns(matrix)
    if columns:
        return _by_columns(matrix, values, columns, keep)
    return _by_rows(matrix, values, keep)


def _are_paired(one: np.ndarray, other: np.ndarray) -> bool:
    """Tell whether two vectors agree up to signs, some equal and some opposite."""
    return (
        bool(np.array_equal(np.abs(one), np.abs(other)))
        and bool(np.any((one == other) & (one != 0)))
        and bool(np.any((one == -other) & (one != 0)))
    )


def _pairs(vectors: np.ndarray) -> list[tuple[int, int]]:
    """Return disjoint neighbours that are paired."""
    found: list[tuple[int, int]] = []
    index = 0
    while index + 1 < len(vectors):
        if _are_paired(vectors[index], vectors[index + 1]):
            found.append((index, index + 1))
            index += 1
        index += 1
    return found


def _paired_columns(matrix: np.ndarray) -> list[tuple[int, int]]:
    # Sharing rows saves more where both are possible: a row holds more terms than it has values.
    return [] if _pairs(matrix) else _pairs(matrix.T)


def _by_rows(matrix: np.ndarray, values: Sequence[Any], keep: Keep) -> list[Any]:
    results: dict[int, Any] = {}
    for first, second in _pairs(matrix):
        common = keep(_sum((matrix[first] + matrix[second]) / 2, values))
        opposite = keep(_sum((matrix[first] - matrix[second]) / 2, values))
        results[first], results[second] = common + opposite, common - opposite
    return [
        results[row] if row in results else _sum(matrix[row], values) for row in range(len(matrix))
    ]


def _by_columns(
    matrix: np.ndarray, values: Sequence[Any], pairs: list[tuple[int, int]], keep: Keep
) -> list[Any]:
    changed = matrix.copy()
    terms = list(values)
    for first, second in pairs:
        terms[first] = keep(values[first] + values[second])
        terms[second] = keep(values[first] - values[second])
        changed[:, first] = (matrix[:, first] + matrix[:, second]) / 2
        changed[:, second] = (matrix[:, first] - matrix[:, second]) / 2
    return [_sum(row, terms) for row in changed]


def _sum(factors: np.ndarray, values: Sequence[Any]) -> Any:
    """Return the sum of `values` times `factors`: zeros left out, one common factor taken out."""
    terms = [(float(f), value) for f, value in zip(factors, values, strict=True) if f != 0]
    sizes = {abs(factor) for factor, _ in terms}
    common = sizes.pop() if len(sizes) == 1 else 1.0
    # Plain terms first, so that each of the others is one fused multiply-add.
    terms.sort(key=lambda term: (abs(term[0]) != common, term[0] < 0))
    total: Any = None
    for factor, value in terms:
        size = abs(factor) / common
        part = value if size == 1 else tir.const(size, value.dtype) * value
        if total is None:
            total = part if factor > 0 else tir.const(0, value.dtype) - part
        else:
            total = total + part if factor > 0 else total - part
    return total if common == 1 else tir.const(common, value.dtype) * total
