"""Arrays of a TVM device as numbers to compare, and how far apart neighbours of a type lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.arrays import BFLOAT16, is_brain, numpy_of
from tvm_fusionx.ecg.relay_constants import cast_constant
from tvm_fusionx.layout.stored_floats import LARGEST

# Between two neighbours, relative to the larger: what is rounded right may be either of them.
STEPS = {"float16": 2.0**-10, BFLOAT16: 2.0**-7}


def numbers_of(array: Any) -> np.ndarray:
    """Return the numbers of a ``tvm.nd.NDArray``; those of bfloat16 are float32."""
    found = numpy_of(array)
    return found.astype("float32") if is_brain(found) else found


def stored(numbers: np.ndarray, dtype: str) -> Any:
    """Return numbers as a ``tvm.nd.NDArray`` of a type that holds them."""
    return cast_constant(relay.Constant(tvm.nd.array(numbers)), dtype).data


def step_of(dtype: str) -> float:
    """Return how far a rightly rounded result of `dtype` may be from another, relatively."""
    return STEPS.get(dtype, 0.0)


def count_saturated(numbers: np.ndarray, dtype: str) -> int:
    """Return how many numbers lie at the end of `dtype`, where what is beyond it is stored."""
    end = LARGEST.get(dtype)
    if end is None:
        return 0
    wide = np.abs(numbers.astype("float64"))
    return int(np.count_nonzero(np.isfinite(wide) & (wide >= end)))
