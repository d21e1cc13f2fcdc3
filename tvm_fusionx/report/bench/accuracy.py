"""How far each side of a benchmark is from the reference, and which computed something else."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tvm_fusionx.report.verify.difference import measure_difference

# A side whose outputs are further off than fast convolutions explain computes something else.
SUSPICIOUS_RELATIVE_ERROR = 1e-2


def distance_of(outputs: Sequence[np.ndarray], reference: Sequence[np.ndarray]) -> float:
    """Return the largest relative difference of a side's outputs from the reference.

    Extents of 1 and widths of dtypes may differ. It is infinite where sizes differ, or where a NaN
    or an infinity is on one side only.
    """
    if [a.size for a in outputs] != [b.size for b in reference]:
        return math.inf
    return max(
        (
            measure_difference(
                np.asarray(a, np.float64).reshape(b.shape), np.asarray(b, np.float64)
            ).distance
            for a, b in zip(outputs, reference, strict=True)
        ),
        default=0.0,
    )


def relative_errors(
    outputs: Mapping[str, Sequence[np.ndarray]], reference: Sequence[np.ndarray]
) -> tuple[dict[str, float], dict[str, str]]:
    """Return how far each side is from the reference, and a message for each that is wrong.

    A side whose outputs have other sizes, or are no numbers where the reference's are, has a
    message alone.
    """
    distances = {side: distance_of(computed, reference) for side, computed in outputs.items()}
    messages = {
        side: f"timed, but its outputs are {distance:.2g} off (relative to the largest)"
        if math.isfinite(distance)
        else "timed, but its outputs are NaN, infinite or of other sizes where the reference's are "
        "not"
        for side, distance in distances.items()
        if not distance <= SUSPICIOUS_RELATIVE_ERROR
    }
    return {side: each for side, each in distances.items() if math.isfinite(each)}, messages
