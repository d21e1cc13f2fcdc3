"""Kernels take denormals for zero on every thread, and leave their callers' arithmetic alone."""

from __future__ import annotations

import ctypes
import json
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relay, tir
from tvm.contrib import cc, graph_executor

from tests.devices.emulated_board import emulated_boards
from tests.relay_modules import TARGET, var
from tests.schedules.blocked_blocks import as_block
from tvm_fusionx.devices import export_kernel, open_session
from tvm_fusionx.late_passes.context import pass_context
from tvm_fusionx.late_passes.flush_denormals import (
    BEGIN,
    END,
    FLUSH,
    KEEP,
    Denormals,
    check_denormals,
    computes_in_floats,
    control_register,
)
from tvm_fusionx.lowering import compile_kernel, lowering
from tvm_fusionx.schedules import resolve_target

# Two thirds of a denormal are one, and twice one is none: 1.2e-38 is the smallest normal number.
DENORMAL, SMALLEST_NORMAL = np.float32(1e-38), np.finfo("float32").tiny
ROWS = 64


def scaling(dtype: str = "float32", factor: float = 0.5, extent: int = ROWS) -> tir.PrimFunc:
    """Return a function whose parallel loop scales each number, and tells the thread it ran on."""
    x, y = (tir.decl_buffer((extent,), dtype, name) for name in "xy")
    threads = tir.decl_buffer((extent,), "int64", "threads")
    i = tir.Var("i", "int32")
    # Of two threads the one that does not begin with the first takes what is left.
    sleep = tir.Evaluate(tir.call_extern("int32", "usleep", 200_000))
    scaled = tir.BufferStore(y, tir.BufferLoad(x, [i]) * tir.const(factor, dtype), [i])
    told = tir.BufferStore(threads, tir.call_extern("int64", "pthread_self"), [i])
    body = tir.SeqStmt([tir.IfThenElse(i == 0, sleep, None), scaled, told])
    loop = tir.For(i, 0, extent, tir.ForKind.PARALLEL, body)
    places = [tir.Var(f"at_{name}", "handle") for name in ("x", "y", "threads")]
    return tir.PrimFunc(places, loop, buffer_map=dict(zip(places, (x, y, threads), strict=True)))


def scaled(denormals: Denormals, value: float, dtype: str = "float32") -> tuple[np.ndarray, int]:
    """Return what `scaling` makes of a value, and on how many threads."""
    kernel = compile_kernel(scaling(dtype), resolve_target(TARGET), "scale", denormals)
    x, y = (tvm.nd.array(np.full(ROWS, each, dtype)) for each in (value, np.nan))
    threads = tvm.nd.array(np.zeros(ROWS, "int64"))
    kernel["scale"](x, y, threads)
    return y.numpy(), len(set(threads.numpy().tolist()))


def lowered(func: tir.PrimFunc, target: str = TARGET, denormals: Denormals = FLUSH) -> str:
    """Return the text of a function after all passes of lowering."""
    with pass_context(resolve_target(target), denormals):
        return str(tvm.lower(func, name="kernel").script())


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(DENORMAL, "float32"), (SMALLEST_NORMAL, "float32"), (1e-310, "float64")],
    ids=["a denormal operand", "a denormal result", "of float64"],
)
def test_denormals_become_zero_unless_they_are_kept(value: float, dtype: str) -> None:
    np.testing.assert_array_equal(scaled(FLUSH, value, dtype)[0], 0)
    kept = scaled(KEEP, value, dtype)[0]
    np.testing.assert_array_equal(kept, np.dtype(dtype).type(value) / 2)
    assert kept.min() > 0


def test_normal_numbers_stay_as_they_are() -> None:
    np.testing.assert_array_equal(scaled(FLUSH, 2 * SMALLEST_NORMAL)[0], SMALLEST_NORMAL)


# Reads and writes the register of the thread that calls.
REGISTER = """
#include <xmmintrin.h>
extern "C" unsigned get() { return _mm_getcsr(); }
extern "C" void set(unsigned value) { _mm_setcsr(value); }
"""
# All exceptions masked, as a thread begins; the same, rounding towards zero; the same, one seen.
WORDS = (0x1F80, 0x7F80, 0x1FA0, 0x9FC0)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the register is MXCSR")
def test_the_callers_register_is_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "register.cc").write_text(REGISTER)
    cc.create_shared(str(tmp_path / "register.so"), str(tmp_path / "register.cc"))
    register = ctypes.CDLL(str(tmp_path / "register.so"))
    kernel = compile_kernel(scaling(), resolve_target(TARGET), "scale")["scale"]
    numbers = [tvm.nd.array(np.full(ROWS, DENORMAL)) for _ in range(2)]
    arguments = [*numbers, tvm.nd.array(np.zeros(ROWS, "int64"))]
    before = register.get()
    found = []
    for word in WORDS:
        register.set(word)
        kernel(*arguments)
        found.append(register.get())
        register.set(before)
    assert found == list(WORDS)


def test_the_callers_arithmetic_is_as_it_was() -> None:
    scaled(FLUSH, DENORMAL)
    assert DENORMAL / np.float32(10) > 0


# A process of its own: how many threads TVM's pool has is settled when it is made.
BOTH_THREADS = """
import json
import tvm_fusionx as fx
from tests.late_passes.test_flush_denormals import DENORMAL, FLUSH, KEEP, scaled

fx.threads(2)
told = []
for denormals in (FLUSH, KEEP):
    numbers, threads = scaled(denormals, DENORMAL)
    told.append((threads, int((numbers == 0).sum())))
print(json.dumps(told))
"""


def test_every_thread_flushes_and_is_as_it_was_afterwards() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", BOTH_THREADS], capture_output=True, text=True, check=True
    )
    flushed, kept = json.loads(ran.stdout.splitlines()[-1])
    assert flushed == [2, ROWS]
    assert kept == [2, 0]


def test_a_loop_that_is_not_divided_flushes_on_every_thread_too() -> None:
    text = lowered(scaling(extent=2))
    assert text.count(BEGIN) == text.count(END)
    inside = text[text.index("T.parallel(") :]
    assert inside.index(BEGIN) < inside.index("* T.float32(0.5)") < inside.index(END)


def _elementwise(value: Any, dtype: str = "float32") -> tir.PrimFunc:
    """Return a function that stores `value` of a vector's elements."""
    x, y = (tir.decl_buffer((8,), dtype, name) for name in "xy")
    i = tir.Var("i", "int32")
    result = value(tir.BufferLoad(x, [i]))
    stored = tir.BufferStore(y, result.astype(dtype), [i])
    places = [tir.Var(f"at_{name}", "handle") for name in "xy"]
    loop = tir.For(i, 0, 8, tir.ForKind.SERIAL, stored)
    return tir.PrimFunc(places, loop, buffer_map=dict(zip(places, (x, y), strict=True)))


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        (lambda x: x * 2.0, "float32", True),
        (lambda x: x - 2.0, "float64", True),
        (lambda x: x.astype("float32") * 2.0, "float16", True),
        (lambda x: tir.exp(x), "float32", True),
        (lambda x: x.astype("float64"), "float32", True),
        (lambda x: x, "float32", False),
        (lambda x: tir.max(x, 0.0), "float32", False),
        (lambda x: tir.if_then_else(x > 1.0, x, 0.0), "float32", False),
        (lambda x: x * 2, "int32", False),
        (lambda x: x.astype("int32") + 1, "float32", False),
    ],
)
def test_kernels_that_compute_in_floats_alone_are_changed(
    value: Any, dtype: str, expected: bool
) -> None:
    func = _elementwise(value, dtype)
    assert computes_in_floats(func.body) == expected
    assert (BEGIN in lowered(func)) == expected


@pytest.mark.parametrize(
    ("target", "instruction"),
    [
        ("llvm -mtriple=x86_64-linux-gnu", "ldmxcsr"),
        ("llvm -mtriple=i686-linux-gnu -mcpu=pentium4", "ldmxcsr"),
        ("llvm -mtriple=aarch64-linux-android", "fpcr"),
        ("llvm -mtriple=armv7a-linux-androideabi", None),
        ("llvm -mtriple=armv8a-linux-gnueabihf", None),
        ("llvm -mtriple=i386-linux-gnu -mcpu=i386", None),
    ],
)
def test_processors_with_such_a_register_set_it(target: str, instruction: str | None) -> None:
    resolved = resolve_target(target)
    assert (control_register(resolved) is not None) == (instruction is not None)
    assembly = compile_kernel(_elementwise(lambda x: x * 2.0), resolved, "k").get_source("asm")
    assert BEGIN not in assembly
    assert END not in assembly
    assert instruction is None or instruction in assembly.lower()


def test_a_context_that_does_not_say_so_changes_no_kernel() -> None:
    with pass_context(resolve_target(TARGET)):
        text = str(tvm.lower(scaling(), name="kernel").script())
    assert text == lowered(scaling(), denormals=KEEP)
    assert BEGIN not in text


def test_what_is_neither_is_refused() -> None:
    with pytest.raises(ValueError, match=r"denormals: expected 'flush' or 'keep'; found 'zero'"):
        check_denormals("zero")
    with pytest.raises(ValueError, match="found 'zero'"), lowering(TARGET, denormals="zero"):  # type: ignore[arg-type]
        pass


def test_an_exported_library_flushes(tmp_path: Path) -> None:
    target = resolve_target(TARGET)
    with lowering(target):
        library = relay.build(as_block(var("x", ROWS) * relay.const(0.5)), target)
    library.export_library(str(tmp_path / "scale.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "scale.so"))
    model = graph_executor.GraphModule(loaded["default"](tvm.cpu()))
    model.run(x=np.full(ROWS, DENORMAL))
    np.testing.assert_array_equal(model.get_output(0).numpy(), 0)
    assert DENORMAL / np.float32(10) > 0


def test_kernels_behind_rpc_flush(tmp_path: Path) -> None:
    with emulated_boards() as emulation:
        device = emulation.device
        for denormals, expected in ((FLUSH, 0), (KEEP, DENORMAL / 2)):
            path = tmp_path / f"{denormals}.so"
            kernel = compile_kernel(scaling(), device.tvm_target(), "scale", denormals)
            export_kernel(kernel, path, device)
            with open_session(device) as session:
                arrays = np.full(ROWS, DENORMAL), np.ones(ROWS, "float32"), np.zeros(ROWS, "int64")
                x, y, threads = (tvm.nd.array(each, session.context) for each in arrays)
                session.load(path)["scale"](x, y, threads)
                np.testing.assert_array_equal(y.numpy(), expected)
