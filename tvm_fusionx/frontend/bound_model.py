"""A model with some of its inputs bound to numbers, for everyone who reads the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tvm_fusionx.errors import InputError
from tvm_fusionx.frontend.model_inputs import (
    check_constant_names,
    check_constants,
    declared_dims,
    declared_dtype,
    graph_inputs,
)
from tvm_fusionx.frontend.read_model import ModelSource, read_model


def bound_model(source: ModelSource, values: Mapping[str, Any]) -> Any:
    """Return the model with inputs bound: a ``ModelProto`` that takes the others only.

    Parameters
    ----------
    values
        By input name: numbers, booleans or nested lists of them, as a person writes them. They
        become the input's own type, which must hold them exactly; one number does for a vector of
        one.

    Raises
    ------
    InputError
        If a name is not one of the model's inputs, or a value does not fit it.
    ShapeError
        If a value has another shape than the input.
    """
    model = read_model(source)
    check_constant_names(model, values)
    arrays = {
        info.name: _array(info, values[info.name])
        for info in graph_inputs(model)
        if info.name in values
    }
    arrays = check_constants(model, arrays)
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    kept = [info for info in model.graph.input if info.name not in arrays]
    del bound.graph.input[:]
    bound.graph.input.extend(kept)
    bound.graph.initializer.extend(numpy_helper.from_array(a, name) for name, a in arrays.items())
    return bound


def _array(info: Any, value: Any) -> Any:
    dtype = declared_dtype(info)
    try:
        given = np.asarray(value)
    except ValueError:
        given = np.asarray(None)
    if given.dtype.kind not in "biuf":
        raise _misfit(info, dtype, value)
    with np.errstate(all="ignore"):
        array = given.astype(dtype)
    is_integer = dtype.startswith(("int", "uint", "bool"))
    # A float may be rounded to the type's own digits; an integer is the number or another one.
    if is_integer and not np.array_equal(array.astype(given.dtype), given):
        raise _misfit(info, dtype, value)
    dims = declared_dims(info)
    is_one = dims is not None and all(dim == 1 or isinstance(dim, str) for dim in dims)
    if array.size == 1 and is_one:
        array = array.reshape((1,) * len(dims or ()))
    return array


def _misfit(info: Any, dtype: str, value: Any) -> InputError:
    return InputError(
        f"constant for input {info.name!r}",
        expected=f"numbers of type {dtype}, as the model declares",
        found=repr(value),
        next_step="Write it like sr=16000, flag=true or size=[480,640].",
    )
