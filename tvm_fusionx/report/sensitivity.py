"""How far a model's own outputs move when its inputs are rounded differently.

Two right implementations of a network differ by rounding, and a network can amplify that: a steep
sigmoid at the end turns the last bits of its operand into visible digits. No compiler can be closer
to another than the model is to itself, so a difference is judged beside this number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tvm_fusionx.report.difference import measure_difference, worst

TRIALS = 3
SEED = 20210620


def rounding_sensitivity(
    run: Callable[[dict[str, np.ndarray]], Sequence[np.ndarray]],
    inputs: Mapping[str, np.ndarray],
    trials: int = TRIALS,
) -> float:
    """Return the largest change of the outputs when each float moves to one of its neighbours.

    Parameters
    ----------
    run
        The model: from inputs by name to outputs, any implementation.
    inputs
        Arrays of any dtype; only floating point ones are moved, by one unit in the last place, up
        or down at random (seeded).
    trials
        How many times.

    Returns
    -------
    float
        The largest absolute change of any output, relative to that output's largest element.
    """
    reference = [np.asarray(output) for output in run(dict(inputs))]
    generator = np.random.default_rng(SEED)
    changes = [0.0]
    for _ in range(trials):
        moved = {name: _to_neighbours(array, generator) for name, array in inputs.items()}
        pairs = zip(run(moved), reference, strict=True)
        changes.append(worst([measure_difference(ours, theirs) for ours, theirs in pairs]).max_rel)
    return max(changes)


def _to_neighbours(array: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    if not np.issubdtype(array.dtype, np.floating):
        return array
    away = generator.choice(np.asarray([-np.inf, np.inf], array.dtype), array.shape)
    moved: np.ndarray = np.nextafter(array, away)
    return moved
