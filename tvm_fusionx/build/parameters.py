"""Values of a module's parameters, bound to it: names, shapes and types checked first."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import tvm
from tvm import relay

from tvm_fusionx.errors import InputError, ModelError

logger = logging.getLogger(__name__)

NAMES_SHOWN = 3


def check_module(mod: Any) -> None:
    """Raise ModelError where `mod` is no Relay module: a path, say, or what an importer returns."""
    if not isinstance(mod, tvm.IRModule):
        raise ModelError(
            "mod",
            expected="a Relay module",
            found=type(mod).__name__,
            next_step="Import the model first: mod, params = tvm_fusionx.from_onnx(model).",
        )


def bind_parameters(mod: Any, params: Mapping[str, Any] | None) -> Any:
    """Return the module with `params` as constants of ``main``.

    Names that ``main`` has no parameter of are no error, for importers hand over weights that the
    model does not use; they are told in one warning.

    Raises
    ------
    ModelError
        `mod` is no Relay module.
    InputError
        A value's shape or type is not that of its parameter.
    """
    check_module(mod)
    if not params:
        return mod
    main = mod["main"]
    wanted = {str(param.name_hint): param.type_annotation for param in main.params}
    for name, value in params.items():
        if name in wanted:
            _check_value(name, value, wanted[name])
    unknown = [name for name in params if name not in wanted]
    if unknown:
        names = ", ".join(unknown[:NAMES_SHOWN]) + (", ..." if len(unknown) > NAMES_SHOWN else "")
        logger.warning("%d values are of no parameter of the model: %s", len(unknown), names)
    out = tvm.IRModule(dict(mod.functions.items()), mod.type_definitions, attrs=mod.attrs)
    out["main"] = relay.build_module.bind_params_by_name(main, dict(params))
    return out


def _check_value(name: str, value: Any, wanted: Any) -> None:
    if not isinstance(wanted, tvm.ir.TensorType) or not hasattr(value, "shape"):
        return  # Its type is inferred.
    extents = [None if isinstance(each, tvm.tir.Any) else int(each) for each in wanted.shape]
    found = list(map(int, value.shape))
    fits = len(extents) == len(found) and all(
        own is None or own == given for own, given in zip(extents, found, strict=True)
    )
    if fits and str(value.dtype) == str(wanted.dtype):
        return
    shape = ", ".join("any" if each is None else str(each) for each in extents)
    raise InputError(
        f"parameter {name!r}",
        expected=f"({shape}) of {wanted.dtype}",
        found=f"({', '.join(map(str, found))}) of {value.dtype}",
        next_step="Give the model's own values.",
    )
