from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.relay_modules import TARGET
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.measuring.peak_kernels import (
    SUMS,
    SUMS_READ,
    copying,
    divisions,
    filling,
    multiply_adds,
    reading,
)
from tvm_fusionx.schedules import resolve_target

LANES = 8


def test_the_multiply_adds_stay_in_registers() -> None:
    target = resolve_target("llvm -mtriple=x86_64-linux-gnu -mcpu=haswell")
    text = compile_kernel(multiply_adds(2, LANES, 1 << 10), target, "adds").get_source("asm")
    lines = [line.split("#")[0] for line in text.splitlines() if "vfmadd" in line]
    assert len(lines) >= SUMS
    # Two operands in registers; at most the constant may come from memory.
    assert not [line for line in lines if "rsp" in line]


def test_the_multiply_adds_are_computed() -> None:
    built = compile_kernel(multiply_adds(2, LANES, 2), resolve_target(TARGET), "adds")
    values = tvm.nd.array(np.full(2 * SUMS * LANES, 3.0, "float32"))
    built["adds"](values)
    np.testing.assert_allclose(values.numpy(), (3 * 0.5 + 0.5) * 0.5 + 0.5, rtol=1e-6)


@pytest.mark.parametrize("floats", [64, 61])
def test_everything_is_copied(floats: int) -> None:
    built = compile_kernel(copying(3, LANES, floats), resolve_target(TARGET), "copying")
    source, copied = (tvm.nd.array(np.arange(floats, dtype="float32") + n) for n in range(2))
    built["copying"](source, copied)
    np.testing.assert_array_equal(source.numpy(), copied.numpy())


def test_the_divisions_are_computed() -> None:
    built = compile_kernel(divisions(2, LANES, 3), resolve_target(TARGET), "divisions")
    values = tvm.nd.array(np.full(2 * SUMS * LANES, 4.0, "float32"))
    built["divisions"](values)
    np.testing.assert_allclose(values.numpy(), 0.5)


def test_all_that_is_read_is_added() -> None:
    floats = 3 * 2 * SUMS_READ * LANES
    built = compile_kernel(reading(2, LANES, floats), resolve_target(TARGET), "reading")
    source = tvm.nd.array(np.arange(floats, dtype="float32"))
    sums = tvm.nd.array(np.zeros(2 * SUMS_READ * LANES, "float32"))
    built["reading"](source, sums)
    assert sums.numpy().sum() == np.arange(floats).sum()


def test_everything_is_filled() -> None:
    built = compile_kernel(filling(3, LANES, 61), resolve_target(TARGET), "filling")
    filled = tvm.nd.array(np.zeros(61, "float32"))
    built["filling"](filled)
    assert (filled.numpy() == 1).all()
