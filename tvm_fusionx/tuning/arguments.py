"""Values for a block's parameters, to time it on and to compare its candidates with."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import is_floating, limits_of
from tvm_fusionx.report.bench.stored_numbers import step_of
from tvm_fusionx.report.verify.difference import DEFAULT_TOLERANCE, measure_difference
from tvm_fusionx.tuning.task import Task

# What outputs hold before a kernel runs: an element that it forgets differs from any result.
UNWRITTEN = -7.0e6
UNWRITTEN_INTEGER = 113


def arguments_of(task: Task) -> list[np.ndarray]:
    """Return an array for each parameter of a block, the same ones each time.

    Floats are between 0.5 and 1.5: no division by zero, no logarithm of it, no slow subnormal
    numbers, no sums that cancel. Integers are indices: zero is always valid.
    """
    generator = np.random.default_rng(zlib.crc32(task.key.encode()))
    outputs = set(task.outputs)
    arrays = []
    for position, param in enumerate(task.func.params):
        buffer = task.func.buffer_map[param]
        shape = [int(extent) for extent in buffer.shape]
        arrays.append(_values(generator, shape, str(buffer.dtype), position in outputs))
    return arrays


def _values(generator: Any, shape: list[int], dtype: str, is_output: bool) -> np.ndarray:
    kind = "f" if is_floating(dtype) else np.dtype(dtype).kind
    if is_output:
        marker = {"f": UNWRITTEN, "b": True}.get(kind, UNWRITTEN_INTEGER)
        if dtype == "float16":
            marker = float(limits_of(dtype).min)
        return np.full(shape, marker, dtype)
    if kind == "f":
        return np.asarray(generator.uniform(0.5, 1.5, shape), dtype)
    return np.zeros(shape, dtype)


def why_wrong(computed: list[np.ndarray], reference: list[np.ndarray]) -> str | None:
    """Return how a candidate's outputs differ from the default's, or None where they agree."""
    for position, (ours, theirs) in enumerate(zip(computed, reference, strict=True)):
        difference = measure_difference(ours, theirs)
        tolerance = max(step_of(str(ours.dtype)), DEFAULT_TOLERANCE)
        if not difference.is_within(tolerance):
            return (
                f"output {position} differs by {difference.max_rel:.2g} of its largest value, "
                f"{difference.misplaced} elements not finite"
            )
    return None
