"""Kernels that do one thing as fast as a CPU can: multiply-adds in registers, and copying."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import te, tir

# Independent sums of each core: enough to hide a multiply-add's latency of 4 cycles in two units,
# and few enough for the 16 registers of AVX2.
SUMS = 12
FLOPS_OF_A_MULTIPLY_ADD = 2
FLOAT_BYTES = 4


def multiply_adds(cores: int, lanes: int, steps: int) -> Any:
    """Return a kernel in which each core multiplies and adds in registers alone.

    Parameters
    ----------
    cores, lanes
        Cores that compute, and float32 lanes of a vector.
    steps
        Multiply-adds of each sum.

    Returns
    -------
    tvm.tir.PrimFunc
        Takes float32 ``(cores * SUMS * lanes,)`` and makes each x half of x + 1, `steps` times.
    """
    builder = tir.ir_builder.create()
    width = SUMS * lanes
    buffer = tir.decl_buffer((cores * width,), "float32", "sums")
    result = builder.buffer_ptr(buffer)
    half = tir.const(0.5, "float32")
    with builder.for_range(0, cores, kind="parallel") as core:
        held = builder.allocate("float32", width, scope="local")
        with _each_sum(builder) as place, _each_lane(builder, lanes) as lane:
            held[place * lanes + lane] = result[core * width + place * lanes + lane]
        with (
            builder.for_range(0, steps),
            _each_sum(builder) as place,
            _each_lane(builder, lanes) as lane,
        ):
            held[place * lanes + lane] = held[place * lanes + lane] * half + half
        with _each_sum(builder) as place, _each_lane(builder, lanes) as lane:
            result[core * width + place * lanes + lane] = held[place * lanes + lane]
    return tir.PrimFunc([buffer], builder.get()).with_attr("tir.noalias", True)


def copying(cores: int, lanes: int, floats: int) -> Any:
    """Return a kernel that copies one float32 tensor ``(floats,)`` into another on all cores."""
    source = te.placeholder((floats,), "float32", "source")
    copied = te.compute((floats,), lambda i: source[i], "copied")
    schedule = tvm.tir.Schedule(te.create_prim_func([source, copied]))
    (loop,) = schedule.get_loops(schedule.get_block("copied"))
    outer, _, inner = schedule.split(loop, [cores, None, lanes])
    schedule.parallel(outer)
    schedule.vectorize(inner)
    return schedule.mod["main"].without_attr("global_symbol")


def _each_sum(builder: Any) -> Any:
    return builder.for_range(0, SUMS, kind="unroll")


def _each_lane(builder: Any, lanes: int) -> Any:
    return builder.for_range(0, lanes, kind="vectorize")
