"""Numbers of TVM's arrays as NumPy's, bfloat16 among them.

NumPy has no bfloat16 of its own; ``ml_dtypes``, which onnx and others share, adds it, and
``np.dtype("bfloat16")`` is known from then on. TVM hands such numbers out as their bits, in uint16.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

BFLOAT16 = "bfloat16"

_BRAIN: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)


def numpy_of(array: Any) -> np.ndarray:
    """Return a copy of the numbers of a ``tvm.nd.NDArray``, in its own element type."""
    found: np.ndarray = array.numpy()
    return found.view(_BRAIN) if array.dtype == BFLOAT16 else found


def with_brains(array: np.ndarray, wanted: str = "") -> np.ndarray:
    """Return an array of a file of NumPy's, in which bfloat16 are two bytes without a meaning.

    Parameters
    ----------
    wanted
        The dtype of what takes the array: for bfloat16, uint16 is its bits.
    """
    is_bits = wanted == BFLOAT16 and array.dtype == np.uint16
    return array.view(_BRAIN) if is_bits or array.dtype == np.dtype("V2") else array


def is_brain(array: Any) -> bool:
    """Tell whether an array of NumPy's holds bfloat16."""
    return bool(array.dtype == _BRAIN)


def is_floating(dtype: Any) -> bool:
    """Tell whether a dtype, or the name of one, has fractions."""
    of = np.dtype(dtype)
    return bool(of == _BRAIN or np.issubdtype(of, np.floating))


def limits_of(dtype: Any) -> Any:
    """Return what ``np.finfo`` does, of bfloat16 too."""
    describe: Any = ml_dtypes.finfo
    return describe(np.dtype(dtype))
