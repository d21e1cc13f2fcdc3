"""How far a model's outputs move when its numbers move by less than float32 can tell apart.

A right implementation of a network gives the exact outputs of a network whose weights and inputs
differ from the given ones in the last bits: that is what numerical analysis calls backward stable.
How much such a change shows at the outputs is a property of the model, its *conditioning*; a steep
sigmoid behind large sums turns last bits into visible digits. Nobody, the reference included, is
nearer to the exact answer than that, so it is what an end-to-end difference is judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import is_floating, limits_of, numpy_of
from tvm_fusionx.report.bench.plain_tvm import load, set_inputs
from tvm_fusionx.report.verify.difference import measure_difference, worst

Arrays = dict[str, np.ndarray]

TRIALS = 4
SEED = 20210620


def conditioning(
    run: Callable[[Arrays], Sequence[np.ndarray]],
    arrays: Mapping[str, np.ndarray],
    trials: int = TRIALS,
    step: float = 0.0,
) -> float:
    """Return the largest change of the outputs when each float moves to one of its neighbours.

    Parameters
    ----------
    run
        The model: from its weights and inputs by name to outputs.
    arrays
        Weights and inputs, any dtypes. Finite floating point elements move by one unit in the last
        place, up or down at random (seeded); nothing else moves.
    trials
        How many times.
    step
        How far apart neighbours are at most, relatively, where what is computed lies in a narrower
        type than the arrays do; by their own type when 0.

    Returns
    -------
    float
        The largest absolute change of any output, relative to that output's largest element.
    """
    still = [np.asarray(output) for output in run(dict(arrays))]
    generator = np.random.default_rng(SEED)
    changes = [0.0]
    for _ in range(trials):
        moved = {name: _to_neighbours(array, generator, step) for name, array in arrays.items()}
        pairs = zip(run(moved), still, strict=True)
        changes.append(worst([measure_difference(new, old) for new, old in pairs]).max_rel)
    return max(changes)


def library_conditioning(
    library: Any, inputs: Mapping[str, np.ndarray], step: float = 0.0
) -> float:
    """Return the conditioning of a built model, its weights being the library's parameters."""
    executor = load(library)
    weights = {name: numpy_of(value) for name, value in library.get_params().items()}

    def run(arrays: Arrays) -> list[np.ndarray]:
        set_inputs(executor, arrays)
        executor.run()
        return [numpy_of(executor.get_output(index)) for index in range(executor.get_num_outputs())]

    return conditioning(run, {**weights, **inputs}, step=step)


def _to_neighbours(array: np.ndarray, generator: np.random.Generator, step: float) -> np.ndarray:
    if not is_floating(array.dtype):
        return array
    up = generator.random(array.shape, np.float32) < 1 / 2
    if step > limits_of(array.dtype).eps:
        # As far as rounding moves a number, and further: by half of a step at most.
        further = array * (1 + np.where(up, step, -step))
        # The largest number, which masks hold, has no neighbour but infinity.
        largest = limits_of(array.dtype).max
        held = np.where(np.isfinite(array), np.clip(further, -largest, largest), array)
        return held.astype(array.dtype)
    limit = np.asarray(np.inf, array.dtype)
    moved: np.ndarray = np.nextafter(array, np.where(up, limit, -limit))
    return np.where(np.isfinite(array), moved, array)
