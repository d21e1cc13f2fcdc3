"""Ours against others: ratios of counts, and how far outputs lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvm_fusionx.counting.count import Count
from tvm_fusionx.report.verify.difference import measure_difference

INSTRUCTIONS = "instructions"


@dataclass(frozen=True)
class Ratio:
    """Ours over the best other.

    Attributes
    ----------
    measure
        What is counted: instructions, or a core's cycles by its name.
    value
        Below 1 where ours is less.
    best
        The other with the least.
    """

    measure: str
    value: float
    best: str


def ratios(ours: Count, others: Sequence[Count]) -> list[Ratio]:
    """Return ours over the best of the others, by instructions and by each core's cycles."""
    if not others:
        return []
    found = []
    for measure in (INSTRUCTIONS, *ours.total.cycles):
        best = min(others, key=lambda other: _value(other, measure))
        found.append(Ratio(measure, _value(ours, measure) / _value(best, measure), best.side))
    return found


def relative_error(count: Count, reference: Count) -> float | None:
    """Return the largest difference of outputs, relative to the reference's largest value.

    None where the sizes differ: the side computed something else. Infinite where one has a NaN or
    an infinite number and the other has not.
    """
    found, expected = _flat(count), _flat(reference)
    if found.size != expected.size or not expected.size:
        return None
    return measure_difference(found, expected).distance


def _value(count: Count, measure: str) -> float:
    return count.total.instructions if measure == INSTRUCTIONS else count.total.cycles[measure]


def _flat(count: Count) -> np.ndarray:
    arrays = [np.asarray(output, np.float64).ravel() for output in count.outputs]
    return np.concatenate(arrays) if arrays else np.empty(0)
