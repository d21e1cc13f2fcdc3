"""Mathematical functions that TVM calls by their C names, by OpenCL's."""

from __future__ import annotations

import functools
from typing import Any

import tvm
from tvm import tir

# TVM has rules of its own for exp, log, pow, sin, cos, tanh, erf and the like; for these it emits
# `acosf`, which OpenCL C does not know: its `acos` takes every floating-point type.
FUNCTIONS = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "atan2"),
    *("copysign", "hypot", "ldexp", "log1p", "nextafter", "tan"),
)

# Above TVM's default rules, which are at 10.
LEVEL = 11


@functools.cache
def register_functions() -> None:
    """Let TVM call these functions by OpenCL's names in kernels for OpenCL; once is enough."""
    for name in FUNCTIONS:
        tvm.ir.register_intrin_lowering(
            f"tir.{name}", target="opencl", f=_called_by_its_name, level=LEVEL
        )


def _called_by_its_name(call: Any) -> Any:
    return tir.call_pure_extern(call.dtype, call.op.name.removeprefix("tir."), *call.args)
