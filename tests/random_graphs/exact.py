"""What a model of float32 means in float64: who is right where two runtimes differ."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from tests.half_models import DOUBLE, in_halves
from tests.random_graphs.evaluate import Array


def exact_outputs(model: onnx.ModelProto, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Return what ONNX's own evaluator computes in float64, by name of output.

    None at all where it lacks an operator, or one of them is not defined in float64.
    """
    try:
        wide = in_halves(model, element=DOUBLE)
        feeds = {
            name: array.astype(np.float64) if array.dtype == np.float32 else array
            for name, array in inputs.items()
        }
        found = ReferenceEvaluator(wide).run(None, feeds)
    except Exception:  # its exceptions share no base class; whoever asks has an answer without it
        return {}
    names = [output.name for output in model.graph.output]
    return {
        name: array
        for name, array in zip(names, found, strict=True)
        if isinstance(array, np.ndarray) and array.dtype == np.float64
    }


def is_no_worse(found: Array, reference: Array, exact: Array, tolerance: float) -> bool:
    """Return whether a result is as near to the exact one as the reference or a tolerance.

    Where a sum of rounding errors is divided by a small spread, as in the norm of a nearly constant
    image, the reference is off itself.
    """
    if found.shape != exact.shape:
        return False
    error = np.abs(found.astype(np.float64) - exact).max()
    allowed = np.abs(reference.astype(np.float64) - exact).max()
    return bool(error <= max(allowed, tolerance * np.abs(exact).max()))
