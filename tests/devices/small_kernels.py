"""Kernels of one loop: an answer that is known, and the ways in which a kernel goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import te, tir

from tvm_fusionx.devices import Device, export_kernel

EXTENT = 8
NAME = "add_one"


def add_one(device: Device, calls: str | None = None, is_parallel: bool = False) -> Any:
    """Return `x + 1` built for a device; `calls` is a C function without arguments called first."""
    x = te.placeholder((EXTENT,), name="x")
    target = device.tvm_target()
    if calls is None:
        y = te.compute((EXTENT,), lambda i: x[i] + 1.0, name="y")
        schedule = te.create_schedule(y.op)
        if target.kind.name != "llvm":
            schedule[y].bind(y.op.axis[0], te.thread_axis("threadIdx.x"))
        elif is_parallel:
            schedule[y].parallel(y.op.axis[0])
        return tvm.build(schedule, [x, y], target, name=NAME)

    def body(ins: Any, outs: Any) -> Any:
        builder = tir.ir_builder.create()
        source, result = builder.buffer_ptr(ins[0]), builder.buffer_ptr(outs[0])
        builder.emit(tir.call_extern("int32", calls))
        with builder.for_range(0, EXTENT) as i:
            result[i] = source[i] + 1.0
        return builder.get()

    y = te.extern((EXTENT,), [x], body, dtype="float32", name="y")
    return tvm.build(te.create_schedule(y.op), [x, y], target, name=NAME)


def library(
    device: Device, folder: Path, calls: str | None = None, is_parallel: bool = False
) -> Path:
    """Return the linked library of :func:`add_one`."""
    return export_kernel(
        add_one(device, calls, is_parallel), folder / f"{calls or NAME}.so", device
    )


def run_add_one(session: Any, path: Path) -> np.ndarray:
    """Return what the kernel makes of 0, 1, 2, ..."""
    module = session.load(path)
    x = tvm.nd.array(np.arange(EXTENT, dtype="float32"), session.context)
    y = tvm.nd.array(np.zeros(EXTENT, "float32"), session.context)
    module[NAME](x, y)
    return np.asarray(y.numpy())


EXPECTED = np.arange(EXTENT, dtype="float32") + 1


LAUNCHES = "fusionx.device.pool_launches"


def launches_of(session: Any, path: Path) -> list[int]:
    """Return how many parallel kernels ran on our pool before, and after one with two threads."""
    session.remote.get_function("runtime.config_threadpool")(1, 2)
    asked = session.remote.get_function(LAUNCHES)
    counts = [int(asked())]
    np.testing.assert_array_equal(run_add_one(session, path), EXPECTED)
    return [*counts, int(asked())]
