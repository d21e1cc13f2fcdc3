"""The static type of every model input, from the file and from what the caller says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvm_fusionx._tvm.arrays import is_floating
from tvm_fusionx.errors import InputError, ShapeError, UnsupportedOperatorError
from tvm_fusionx.frontend.element_types import dtype_of

ShapeArgument = Mapping[str, Sequence[int]] | None
DtypeArgument = Mapping[str, str] | str | None


def graph_inputs(model: Any) -> list[Any]:
    """Return the inputs that are fed at run time: all but those with an initializer."""
    initializers = {tensor.name for tensor in model.graph.initializer}
    return [info for info in model.graph.input if info.name not in initializers]


def show_shape(dims: Sequence[Any]) -> str:
    """Return a shape as the command line writes it."""
    return "[" + ",".join(str(dim) for dim in dims) + "]"


def declared_dims(info: Any) -> list[int | str] | None:
    """Return an input's dimensions, a name where open, or None when not even the rank is given."""
    tensor_type = info.type.tensor_type
    if not tensor_type.HasField("shape"):
        return None
    # Exporters write an open dimension as a name, as nothing at all, or as -1.
    return [
        int(dim.dim_value)
        if dim.HasField("dim_value") and dim.dim_value >= 0
        else dim.dim_param or "?"
        for dim in tensor_type.shape.dim
    ]


def _check_names(given: Mapping[str, Any], names: Sequence[str], argument: str) -> None:
    for name in given:
        if name not in names:
            raise InputError(
                f"{argument} for input {name!r}",
                expected="one of the model's inputs: " + ", ".join(map(repr, names)),
                found=repr(name),
                next_step="Correct the name.",
            )


def _check_given_shape(name: str, given: Sequence[int], dims: list[int | str] | None) -> None:
    thing = f"shape of input {name!r}"
    if not all(isinstance(dim, (int, np.integer)) and dim >= 0 for dim in given):
        raise ShapeError(
            thing,
            expected="integers, none negative",
            found=show_shape(given),
            next_step="Give every dimension the size it has at run time.",
        )
    fits = dims is None or (
        len(dims) == len(given)
        and all(isinstance(d, str) or d == g for d, g in zip(dims, given, strict=True))
    )
    if not fits:
        raise ShapeError(
            thing,
            expected=f"{show_shape(dims or [])} as the model declares",
            found=show_shape(given),
            next_step="Only open dimensions (shown by name) can be chosen."
            if any(isinstance(dim, str) for dim in dims or [])
            else "Leave it out, or give it this shape.",
        )


def _open_shapes_error(still_open: Sequence[tuple[str, list[int | str] | None]]) -> ShapeError:
    listed = "; ".join(
        f"input {name!r} {show_shape(dims)}, open: "
        + ", ".join(f"dimension {i} ({d})" for i, d in enumerate(dims) if isinstance(d, str))
        if dims is not None
        else f"input {name!r} of unknown rank"
        for name, dims in still_open
    )
    example = {
        name: [dim if isinstance(dim, int) else 1 for dim in dims or ["?"]]
        for name, dims in still_open
    }
    flag = " ".join(f"{name}:{show_shape(dims)}" for name, dims in example.items())
    argument = ", ".join(f"{name!r}: ({', '.join(map(str, d))},)" for name, d in example.items())
    return ShapeError(
        "the model's inputs",
        expected="static shapes",
        found=listed,
        next_step=f'Give them, for example --input-shapes "{flag}" or '
        f"from_onnx(model, shape={{{argument}}}), with the sizes you run.",
    )


def resolve_inputs(
    model: Any,
    shape: ShapeArgument,
    dtype: DtypeArgument,
    constants: Mapping[str, Any],
) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the static shape and dtype of every run-time input of `model`, in its order.

    Raises
    ------
    ShapeError
        If dimensions stay open (all are listed), or a given shape contradicts the file.
    InputError
        If a name in `shape`, `dtype` or `constants` is no input, or a dtype contradicts the file.
    """
    infos = graph_inputs(model)
    names = [info.name for info in infos]
    shape = dict(shape or {})
    _check_names(shape, names, "shape")
    _check_names(constants, names, "constant")
    if dtype is not None and not isinstance(dtype, str):
        _check_names(dtype, names, "dtype")
    inputs: dict[str, tuple[tuple[int, ...], str]] = {}
    still_open = []
    for info in infos:
        if info.name in constants:
            continue
        declared = declared_dtype(info)
        _check_dtype(info.name, declared, dtype)
        dims = declared_dims(info)
        if info.name in shape:
            _check_given_shape(info.name, shape[info.name], dims)
            dims = [int(dim) for dim in shape[info.name]]
        if dims is None or any(isinstance(dim, str) for dim in dims):
            still_open.append((info.name, dims))
        else:
            inputs[info.name] = (tuple(int(dim) for dim in dims), declared)
    if still_open:
        raise _open_shapes_error(still_open)
    return inputs


def _element_of(info: Any) -> int:
    return int(info.type.tensor_type.elem_type)


def declared_dtype(info: Any) -> str:
    """Return the dtype of an input, which must be a tensor."""
    kind = info.type.WhichOneof("value")
    if kind != "tensor_type":
        raise UnsupportedOperatorError(
            f"input {info.name!r}",
            expected="a tensor",
            found=f"a value of kind {kind or 'unknown'}, whose structure is known only at run time",
            next_step="Export the model with tensor inputs.",
        )
    return dtype_of(_element_of(info), f"input {info.name!r}")


def _check_dtype(name: str, declared: str, given: DtypeArgument) -> None:
    wanted = given if given is None or isinstance(given, str) else given.get(name)
    # A single string cannot speak for inputs of several types; it must at least suit the floats.
    if isinstance(given, str) and not is_floating(declared):
        wanted = None
    if wanted is not None and str(wanted) != declared:
        raise InputError(
            f"dtype of input {name!r}",
            expected=f"{declared} as the model declares",
            found=str(wanted),
            next_step="To change its types convert the model, e.g. with onnxconverter-common.",
        )


def check_constant_names(model: Any, constants: Mapping[str, Any]) -> None:
    """Refuse constants for what is not an input of the model.

    Raises
    ------
    InputError
        Naming the inputs.
    """
    _check_names(constants, [info.name for info in graph_inputs(model)], "constant")


def check_constants(model: Any, constants: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Return `constants` as arrays, each of the type its input declares."""
    arrays = {}
    for info in graph_inputs(model):
        if info.name not in constants:
            continue
        array = np.asarray(constants[info.name])
        declared = declared_dtype(info)
        if str(array.dtype) != declared:
            raise InputError(
                f"constant for input {info.name!r}",
                expected=f"{declared} as the model declares",
                found=str(array.dtype),
                next_step=f"Convert it: array.astype({declared!r}).",
            )
        _check_given_shape(info.name, array.shape, declared_dims(info))
        arrays[info.name] = array
    return arrays
