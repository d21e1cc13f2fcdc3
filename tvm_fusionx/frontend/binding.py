"""Which inputs of the model a value comes from, and how to bind them while compiling."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from tvm import relay

from tvm_fusionx._tvm.arrays import is_floating
from tvm_fusionx.errors import FusionXError

# More numbers than a person would bind by hand: such an input is data, like a picture.
MOST_NUMBERS = 16
# The numbers of an example are written out up to here.
MOST_SHOWN = 4
# What the variables of loops' and branches' functions are called; they are no inputs of the model.
INNER_VARIABLE = "inside: "
# How the sentence begins that says so.
BIND = "Bind "
DATA = "Export the model so that it does not depend on the data."


_left_to_run_time: ContextVar[bool] = ContextVar("left_to_run_time", default=False)


@contextlib.contextmanager
def left_to_run_time() -> Iterator[None]:
    """Ask for no number to be bound in this scope: sizes and flags are data like any other."""
    token = _left_to_run_time.set(True)
    try:
        yield
    finally:
        _left_to_run_time.reset(token)


def asks_to_bind(error: FusionXError) -> bool:
    """Tell whether an error asks for an input to be bound."""
    return error.next_step.startswith(BIND)


def inputs_behind(expr: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Return name and shape of every input of the model that `expr` is computed from."""
    return [
        (str(var.name_hint), tuple(int(dim) for dim in var.type_annotation.shape))
        for var in relay.analysis.free_vars(expr)
        if not str(var.name_hint).startswith(INNER_VARIABLE)
    ]


def is_bindable(expr: Any) -> bool:
    """Tell whether `expr` is computed from nothing but sizes and flags: small, of no fractions.

    Where they are left to the run time, nothing is.
    """
    if _left_to_run_time.get():
        return False
    variables = list(relay.analysis.free_vars(expr))
    return bool(variables) and all(
        not str(var.name_hint).startswith(INNER_VARIABLE)
        and not is_floating(str(var.type_annotation.dtype))
        and _count([int(dim) for dim in var.type_annotation.shape]) <= MOST_NUMBERS
        for var in variables
    )


def _count(shape: Sequence[int]) -> int:
    count = 1
    for dim in shape:
        count *= dim
    return count


def _example(name: str, shape: tuple[int, ...]) -> str:
    if not shape:
        return f"{name}=N"
    count = _count(shape)
    listed = ",".join(["N"] * count) if count <= MOST_SHOWN else "N,..."
    return f"{name}={'[' * len(shape)}{listed}{']' * len(shape)}"


def origin(expr: Any) -> str:
    """Return in words where a value comes from."""
    names = [repr(name) for name, _ in inputs_behind(expr)]
    if not names:
        return "a value computed at run time"
    return f"a value computed at run time from input{'s' * (len(names) > 1)} {', '.join(names)}"


def how_to_bind(expr: Any) -> str:
    """Return the sentence that says how to make a value known while compiling."""
    inputs = inputs_behind(expr)
    small = [(name, shape) for name, shape in inputs if _count(shape) <= MOST_NUMBERS]
    if not small:
        return DATA
    flag = " ".join(_example(*each) for each in small)
    names = ", ".join(f"{name!r}: array" for name, _ in small)
    return (
        f"{BIND}{', '.join(repr(name) for name, _ in small)}: --constants {flag}, "
        f"or from_onnx(model, constants={{{names}}})."
    )
