"""Kernels that do one thing as fast as a CPU can: arithmetic in registers, or moving bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tvm
from tvm import te, tir

# Independent sums of each core: enough to hide a multiply-add's latency of 4 cycles in two units,
# and few enough for the 16 registers of AVX2.
SUMS = 12
# As many hide an addition's latency of 3 or 4 cycles, and divide the sizes that are measured.
SUMS_READ = 8
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
    half = tir.const(0.5, "float32")
    return _in_registers(cores, lanes, steps, lambda x: x * half + half)


def divisions(cores: int, lanes: int, steps: int) -> Any:
    """Return a kernel like that of :func:`multiply_adds` which makes each x two over x."""
    two = tir.const(2.0, "float32")
    return _in_registers(cores, lanes, steps, lambda x: two / x)


def _in_registers(cores: int, lanes: int, steps: int, step: Callable[[Any], Any]) -> Any:
    builder = tir.ir_builder.create()
    width = SUMS * lanes
    buffer = tir.decl_buffer((cores * width,), "float32", "sums")
    result = builder.buffer_ptr(buffer)
    with builder.for_range(0, cores, kind="parallel") as core:
        held = builder.allocate("float32", width, scope="local")
        with _each_sum(builder) as place, _each_lane(builder, lanes) as lane:
            held[place * lanes + lane] = result[core * width + place * lanes + lane]
        with (
            builder.for_range(0, steps),
            _each_sum(builder) as place,
            _each_lane(builder, lanes) as lane,
        ):
            held[place * lanes + lane] = step(held[place * lanes + lane])
        with _each_sum(builder) as place, _each_lane(builder, lanes) as lane:
            result[core * width + place * lanes + lane] = held[place * lanes + lane]
    return tir.PrimFunc([buffer], builder.get()).with_attr("tir.noalias", True)


def reading(cores: int, lanes: int, floats: int) -> Any:
    """Return a kernel in which each core adds up its part of one tensor.

    Parameters
    ----------
    cores, lanes
        Cores that read, and float32 lanes of a vector.
    floats
        Elements, a multiple of ``cores * SUMS_READ * lanes``.

    Returns
    -------
    tvm.tir.PrimFunc
        Takes float32 ``(floats,)`` and ``(cores * SUMS_READ * lanes,)``, to which it writes.
    """
    builder = tir.ir_builder.create()
    width = SUMS_READ * lanes
    source_buffer = tir.decl_buffer((floats,), "float32", "source")
    sums_buffer = tir.decl_buffer((cores * width,), "float32", "sums")
    source, sums = builder.buffer_ptr(source_buffer), builder.buffer_ptr(sums_buffer)
    with builder.for_range(0, cores, kind="parallel") as core:
        held = builder.allocate("float32", width, scope="local")
        with _each_sum(builder, SUMS_READ) as place, _each_lane(builder, lanes) as lane:
            held[place * lanes + lane] = tir.const(0.0, "float32")
        with (
            builder.for_range(0, floats // (cores * width)) as step,
            _each_sum(builder, SUMS_READ) as place,
            _each_lane(builder, lanes) as lane,
        ):
            first = core * (floats // cores) + step * width + place * lanes
            held[place * lanes + lane] = held[place * lanes + lane] + source[first + lane]
        with _each_sum(builder, SUMS_READ) as place, _each_lane(builder, lanes) as lane:
            sums[core * width + place * lanes + lane] = held[place * lanes + lane]
    body = builder.get()
    return tir.PrimFunc([source_buffer, sums_buffer], body).with_attr("tir.noalias", True)


def filling(cores: int, lanes: int, floats: int) -> Any:
    """Return a kernel that writes ones over a float32 tensor ``(floats,)`` on all cores."""
    return _element_by_element(
        cores, lanes, [te.compute((floats,), lambda i: tir.const(1.0, "float32"), "filled")]
    )


def copying(cores: int, lanes: int, floats: int) -> Any:
    """Return a kernel that copies one float32 tensor ``(floats,)`` into another on all cores."""
    source = te.placeholder((floats,), "float32", "source")
    return _element_by_element(
        cores, lanes, [source, te.compute((floats,), lambda i: source[i], "copied")]
    )


def _element_by_element(cores: int, lanes: int, tensors: list[Any]) -> Any:
    schedule = tvm.tir.Schedule(te.create_prim_func(tensors))
    (loop,) = schedule.get_loops(schedule.get_block(tensors[-1].op.name))
    outer, _, inner = schedule.split(loop, [cores, None, lanes])
    schedule.parallel(outer)
    schedule.vectorize(inner)
    return schedule.mod["main"].without_attr("global_symbol")


def _each_sum(builder: Any, sums: int = SUMS) -> Any:
    return builder.for_range(0, sums, kind="unroll")


def _each_lane(builder: Any, lanes: int) -> Any:
    return builder.for_range(0, lanes, kind="vectorize")
