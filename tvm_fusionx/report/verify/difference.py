"""How far an array is from its reference."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import is_floating

# Reassociated float32 sums differ by this much, relative to the largest output.
DEFAULT_TOLERANCE = 1e-5
# Winograd's minimal filtering trades digits for multiplications (docs/design/winograd.md).
WINOGRAD_TOLERANCE = 1e-4


@dataclass(frozen=True)
class Difference:
    """The distance of a computed array from its reference.

    Attributes
    ----------
    max_abs
        Largest absolute difference, over the elements finite on both sides.
    max_rel
        `max_abs` divided by the largest absolute value of the reference.
    cosine
        Cosine of the angle between the two arrays seen as vectors; 1.0 for two zero vectors.
    nans, infs
        NaN and infinite elements of the computed array.
    misplaced
        Elements that are NaN or infinite on one side only, or infinite with the other sign.
    problem
        Why the arrays cannot be compared (shape or dtype), else empty.
    exact
        Whether the dtype leaves no room for rounding (integers and booleans).
    """

    max_abs: float
    max_rel: float
    cosine: float
    nans: int
    infs: int
    misplaced: int
    problem: str = ""
    exact: bool = False

    @property
    def distance(self) -> float:
        """`max_rel`; infinity where the arrays cannot be compared, or an element is misplaced."""
        return float("inf") if self.problem or self.misplaced else self.max_rel

    def is_within(self, tolerance: float) -> bool:
        """Tell whether the array is its reference within `tolerance` on :attr:`max_rel`.

        Integers and booleans must be equal whatever the tolerance.
        """
        if self.problem or self.misplaced:
            return False
        return self.max_abs == 0 if self.exact else self.max_rel <= tolerance

    def to_json(self) -> dict[str, Any]:
        """Return the attributes as a dictionary that ``json.dumps`` takes."""
        return asdict(self)


def measure_difference(computed: np.ndarray, reference: np.ndarray) -> Difference:
    """Return how far `computed` is from `reference`.

    Parameters
    ----------
    computed, reference
        Arrays of any numeric or boolean dtype; a difference in shape or dtype is a finding, not an
        error.
    """
    computed, reference = np.asarray(computed), np.asarray(reference)
    if computed.shape != reference.shape:
        return _incomparable(f"shape {computed.shape} instead of {reference.shape}")
    if computed.dtype != reference.dtype:
        return _incomparable(f"dtype {computed.dtype} instead of {reference.dtype}")
    exact = not is_floating(reference.dtype)
    # Elements equal bit for bit are equal also where float64 cannot hold them (64-bit integers).
    differs = computed != reference
    ours, theirs = computed.astype(np.float64), reference.astype(np.float64)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    both_nan = np.isnan(ours) & np.isnan(theirs)
    misplaced = int(np.count_nonzero(~finite & ~both_nan & (ours != theirs)))
    distance = np.abs(np.where(finite & differs, ours, 0) - np.where(finite & differs, theirs, 0))
    max_abs = float(distance.max(initial=0.0))
    if exact and differs.any():
        max_abs = max(max_abs, 1.0)
    largest = float(np.abs(np.where(np.isfinite(theirs), theirs, 0)).max(initial=0.0))
    return Difference(
        max_abs=max_abs,
        max_rel=max_abs / largest if largest else max_abs,
        cosine=_cosine(np.where(finite, ours, 0), np.where(finite, theirs, 0)),
        nans=int(np.count_nonzero(np.isnan(ours))),
        infs=int(np.count_nonzero(np.isinf(ours))),
        misplaced=misplaced,
        exact=exact,
    )


def worst(differences: list[Difference]) -> Difference:
    """Return the difference furthest from its reference; of none at all, no difference."""
    if not differences:
        return Difference(0.0, 0.0, 1.0, 0, 0, 0)
    return max(
        differences,
        key=lambda d: (bool(d.problem), d.misplaced, d.exact and d.max_abs > 0, d.max_rel),
    )


def _incomparable(problem: str) -> Difference:
    return Difference(float("inf"), float("inf"), 0.0, 0, 0, 0, problem=problem)


def _cosine(ours: np.ndarray, theirs: np.ndarray) -> float:
    a, b = ours.ravel(), theirs.ravel()
    # Scaled by the largest element first: squares of large float32 sums overflow nothing then.
    scale = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
    if scale == 0:
        return 1.0
    a, b = a / scale, b / scale
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(np.dot(a, b) / length) if length else 0.0
