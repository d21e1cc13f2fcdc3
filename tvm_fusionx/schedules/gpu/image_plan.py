"""Decide which tensors between the kernels of a model are images.

A tensor is one where its writer stores whole pixels and every reader loads whole pixels; what a
kernel does is looked up in its lowered code. Everything else stays a buffer, for a reason.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relay

from tvm_fusionx.ecg.block_calls import operands_of, post_order
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.pixels import in_pixels, why_not_pixels
from tvm_fusionx.schedules.gpu.textures import FEWEST_AXES, PIXEL

LOWERED_CALL = "call_lowered"
VIEW = "relay.reshape_only"

# What a kernel computes in; writing an image of halves rounds as the driver likes.
DTYPE = "float32"

KERNEL = re.compile(r"^(?P<symbol>.+)_kernel(_\d+)?$")
"""TVM's name of a device function, after the host's function that launches it."""

PLAIN = (relay.Call, relay.Tuple, relay.TupleGetItem, relay.Var, relay.Constant, relay.GlobalVar)

Placed = Mapping[str, Mapping[int, int]]
"""For a kernel's symbol, the columns of the image that a parameter is, by its position."""


@dataclass(frozen=True)
class Tensor:
    """What one kernel hands to others."""

    writer: str
    """The symbol of the kernel."""

    place: int
    """The position of the tensor among the writer's parameters."""

    readers: tuple[tuple[str, int], ...]
    """The symbols of kernels that read it, and its position among their parameters."""

    shape: tuple[int, ...] = ()
    refusal: str | None = None
    """Why it cannot be an image, as far as the graph tells."""

    @property
    def columns(self) -> int:
        """Pixels of a row of the image."""
        return self.shape[-2]


@dataclass(frozen=True)
class ImagePlan:
    """The images of a model."""

    placed: Placed
    refusals: Mapping[str, str]
    """For the symbol of each kernel whose result stays a buffer, the reason."""


def plan_images(
    main: relay.Function,
    kernels: Mapping[Any, Any],
    parameters: Mapping[str, Sequence[str]],
    gpu: Gpu,
) -> ImagePlan:
    """Return which tensors are images, and why the others are not.

    Parameters
    ----------
    main
        The model after lowering, as calls of kernels; typed.
    kernels
        Lowered device functions by global variable.
    parameters
        For each kernel's symbol, the names of its parameters as the device functions know them.
    """
    launched: dict[str, list[Any]] = {}
    for variable, func in kernels.items():
        if match := KERNEL.match(variable.name_hint):
            launched.setdefault(match["symbol"], []).append(func)
    placed: dict[str, dict[int, int]] = {}
    refusals: dict[str, str] = {}
    for tensor in tensors_between(main, gpu):
        users = [(tensor.writer, tensor.place, True), *((*each, False) for each in tensor.readers)]
        reasons = (
            _why_not_image(launched.get(symbol, ()), parameters.get(symbol, ()), place, is_written)
            for symbol, place, is_written in users
        )
        reason = tensor.refusal or next(filter(None, reasons), None)
        if reason is not None:
            refusals[tensor.writer] = reason
            continue
        for symbol, place, _ in users:
            placed.setdefault(symbol, {})[place] = tensor.columns
    return ImagePlan(placed, refusals)


def with_images(
    kernels: Mapping[Any, Any], parameters: Mapping[str, Sequence[str]], placed: Placed
) -> dict[Any, Any]:
    """Return device functions that take images where they are placed; as for `plan_images`."""
    changed = dict(kernels)
    for variable, func in kernels.items():
        match = KERNEL.match(variable.name_hint)
        symbol = match["symbol"] if match else ""
        names = {parameters[symbol][place]: w for place, w in placed.get(symbol, {}).items()}
        columns = {param: names[param.name] for param in func.params if param.name in names}
        if columns:
            changed[variable] = in_pixels(func, columns)
    return changed


def tensors_between(main: relay.Function, gpu: Gpu) -> list[Tensor]:
    """Return what kernels of a lowered model write, with who reads it, producers first."""
    order = post_order(main.body)
    if not all(isinstance(expr, PLAIN) for expr in order):
        return []  # control flow reads what this walk does not see
    calls = [expr for expr in order if _is_lowered_call(expr)]
    times = Counter(_symbol(call) for call in calls)
    readers: dict[Any, list[tuple[str, int]]] = {}
    refused: dict[Any, str] = dict.fromkeys(_results(main.body), "it is an output of the model")
    operands = {call.args[1] for call in calls}
    for expr in order:
        if _is_lowered_call(expr):
            for place, operand in enumerate(expr.args[1].fields):
                readers.setdefault(operand, []).append((_symbol(expr), place))
                if _is_view(expr):
                    refused.setdefault(operand, "a view of it is taken")
        elif expr not in operands and not isinstance(expr, relay.Var):
            for operand in operands_of(expr):
                refused.setdefault(operand, "no kernel reads it")
    found = []
    for call in calls:
        if _is_view(call):
            continue
        symbol, place = _symbol(call), len(call.args[1].fields)
        users = tuple(readers.get(call, ()))
        if not isinstance(call.checked_type, relay.TensorType):
            found.append(Tensor(symbol, place, users, (), "its kernel has several results"))
            continue
        shape = tuple(int(extent) for extent in call.checked_type.shape)
        reason = refused.get(call) or why_no_image(shape, str(call.checked_type.dtype), gpu)
        if any(times[each] > 1 for each in (symbol, *(reader for reader, _ in users))):
            reason = reason or "one of its kernels is called several times"
        found.append(Tensor(symbol, place, users, shape, reason))
    return found


def why_no_image(shape: Sequence[int], dtype: str, gpu: Gpu) -> str | None:
    """Return why a tensor of this shape cannot be an image, or None."""
    if dtype != DTYPE:
        return f"it holds {dtype}"
    if len(shape) < FEWEST_AXES or shape[-1] != PIXEL:
        return "its last axis is not a pixel"
    rows, columns = math.prod(shape[:-2]), shape[-2]
    if max(rows, columns) > gpu.texture_extent:
        return f"{rows} x {columns} pixels are more than the device's {gpu.texture_extent}"
    return None


def _why_not_image(
    kernels: Sequence[Any], names: Sequence[str], place: int, is_written: bool
) -> str | None:
    name = names[place] if place < len(names) else None
    taken = [(func, param) for func in kernels for param in func.params if param.name == name]
    if not taken:
        return "TVM schedules one of its kernels by itself"
    reasons = (why_not_pixels(func, param, is_written) for func, param in taken)
    reason = next(filter(None, reasons), None)
    return reason and f"{'its writer' if is_written else 'a reader'}: {reason}"


def _is_lowered_call(expr: Any) -> bool:
    return isinstance(expr, relay.Call) and getattr(expr.op, "name", "") == LOWERED_CALL


def _is_view(call: Any) -> bool:
    return VIEW in call.attrs.metadata["relay_attrs"]


def _symbol(call: Any) -> str:
    return str(call.args[0].name_hint)


def _results(body: Any) -> list[Any]:
    return list(body.fields) if isinstance(body, relay.Tuple) else [body]
