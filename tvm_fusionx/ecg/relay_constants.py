"""Relay's constants as numpy arrays and back, without copying what only passes through.

Each pass turns a module into a graph and back. Copied on both ways, the weights of a large model
take seconds in every pass, and the memory of one more copy of them all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relay

from tvm_fusionx._tvm.arrays import BFLOAT16, numpy_of

# Kinds of numpy's numbers that TVM knows under the same name: bool, integers, floats.
_KINDS = "biuf"


class NotAnArrayError(ValueError):
    """A constant's elements are of a type that numpy does not know."""


class _SharedMemory:
    """Keeps a TVM array alive as long as a numpy array reads its elements."""

    def __init__(self, data: Any, dtype: np.dtype[Any]) -> None:
        self.data = data
        self.address = _address(data)
        self.__array_interface__ = {
            "version": 3,
            "shape": tuple(data.shape),
            "typestr": dtype.str,
            # The second tells that it may not be written: other modules read the same constant.
            "data": (self.address, True),
        }


def to_array(constant: Any) -> np.ndarray:
    """Return the elements of a ``relay.Constant``, read-only and where they are.

    Raises
    ------
    NotAnArrayError
        numpy does not know the type of the elements.
    """
    data = constant.data
    try:
        dtype = np.dtype(data.dtype)
    except TypeError:
        dtype = np.dtype("V")
    if dtype.kind not in _KINDS and data.dtype != BFLOAT16:
        raise NotAnArrayError(f"a constant of {data.dtype}, which numpy does not know")
    tensor = data.handle.contents
    if tvm.device(tensor.device).device_type != tvm.cpu().device_type or tensor.strides:
        return numpy_of(data)
    # Its interface has two bytes without a meaning for a bfloat16; any other is what it is.
    return np.asarray(_SharedMemory(data, dtype)).view(dtype)


def to_constant(array: np.ndarray) -> Any:
    """Return a ``relay.Constant`` of these elements: the one they came from where they are whole.

    Parameters
    ----------
    array
        C contiguous, from :func:`to_array` or of its own memory, which is copied.
    """
    memory: Any = array
    while isinstance(memory, np.ndarray):
        memory = memory.base
    if (
        isinstance(memory, _SharedMemory)
        and array.ctypes.data == memory.address
        and array.shape == tuple(memory.data.shape)
        and str(array.dtype) == memory.data.dtype
        and array.flags.c_contiguous
    ):
        return relay.Constant(memory.data)
    return relay.Constant(tvm.nd.array(array))


def _address(data: Any) -> int:
    tensor = data.handle.contents
    return int(tensor.data or 0) + int(tensor.byte_offset)


def cast_constant(constant: Any, dtype: str) -> Any:
    """Return a ``relay.Constant`` of the same numbers in another type, rounded to the nearest.

    Parameters
    ----------
    constant
        Of a type that numpy knows, or of bfloat16.
    dtype
        Any type that numpy knows, or bfloat16.
    """
    data = constant.data
    if str(data.dtype) == dtype:
        return constant
    # Too large for a narrower type is infinite, as a cast has it.
    with np.errstate(over="ignore", invalid="ignore"):
        return relay.Constant(tvm.nd.array(numpy_of(data).astype(dtype)))
