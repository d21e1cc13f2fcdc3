"""A level that one kernel rounds and reads again is a float all along, with the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.expressions.round_even import register_rounding
from tvm_fusionx.late_passes.levels_in_floats import levels_in_floats
from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.processors.targets import resolve_target

LANES, COUNT = 8, 64
HERE = "llvm -mcpu=native"


def _read_again(
    dtype: str, zero: int, taken: int, bounds: tuple[int, int] | None = None, stores: bool = False
) -> Any:
    """Return a function that quantizes vectors, and reads them, less `taken`, as floats."""
    register_rounding()
    low, high = bounds or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x, y = (tir.decl_buffer((COUNT,), "float32", name) for name in "xy")
    kept = tir.decl_buffer((COUNT,), dtype, "kept")

    def number(value: float, kind: str = "float32") -> Any:
        return tir.Broadcast(tir.const(value, kind), LANES)

    ib = tir.ir_builder.create()
    with ib.for_range(0, COUNT // LANES, "vector") as vector:
        place = tir.Ramp(vector * LANES, 1, LANES)
        level = tir.nearbyint(tir.BufferLoad(x, [place])) + number(zero)
        byte = tir.Cast(f"{dtype}x{LANES}", tir.Max(tir.Min(level, number(high)), number(low)))
        if stores:
            ib.emit(tir.BufferStore(kept, byte, [place]))
            byte = tir.BufferLoad(kept, [place])
        whole = tir.Cast(f"int32x{LANES}", byte) - number(taken, "int32")
        ib.emit(tir.BufferStore(y, tir.Cast(f"float32x{LANES}", whole) * number(0.5), [place]))
    return tir.PrimFunc([x, y, kept], ib.get()).with_attr("global_symbol", "main")


def _after(func: Any) -> Any:
    return levels_in_floats()(tvm.IRModule({"main": func}))["main"]


def _conversions(func: Any) -> int:
    found: list[Any] = []
    tir.stmt_functor.post_order_visit(
        func.body, lambda node: found.append(node) if isinstance(node, tir.Cast) else None
    )
    return len(found)


@pytest.mark.parametrize(
    ("dtype", "zero", "taken", "bounds"),
    [
        ("uint8", 124, 124, None),
        ("uint8", 3, 0, None),
        ("int8", -7, -7, None),
        ("int8", 5, 11, (-100, 90)),
    ],
)
def test_numbers(dtype: str, zero: int, taken: int, bounds: tuple[int, int] | None) -> None:
    func = _read_again(dtype, zero, taken, bounds)
    assert _conversions(_after(func)) == 0
    x = (np.random.default_rng(0).standard_normal(COUNT) * 200).astype("float32")
    x[:8] = [0.5, 1.5, -0.5, 3e38, -3e38, np.inf, -np.inf, 2.5]
    low, high = bounds or (np.iinfo(dtype).min, np.iinfo(dtype).max)
    expected = (np.clip(np.rint(x) + zero, low, high) - taken) * np.float32(0.5)
    target = resolve_target(HERE)
    held = [tvm.nd.array(each) for each in (x, np.zeros_like(x), np.zeros(COUNT, dtype))]
    compile_kernel(func, target, "kernel")["kernel"](*held)
    assert np.array_equal(held[1].numpy(), expected)


def test_no_number_becomes_none_and_none_a_number() -> None:
    func = _read_again("uint8", 9, 9)
    x = np.full(COUNT, np.nan, "float32")
    x[1] = 4.0
    held = [tvm.nd.array(each) for each in (x, np.zeros_like(x), np.zeros(COUNT, "uint8"))]
    compile_kernel(func, resolve_target(HERE), "kernel")["kernel"](*held)
    found = held[1].numpy()
    assert found[1] == 2.0
    assert np.isnan(found[0])


def test_bytes_that_are_stored_stay() -> None:
    func = _read_again("uint8", 9, 9, stores=True)
    assert tvm.ir.structural_equal(_after(func), func)


def test_bounds_that_no_byte_has_stay() -> None:
    func = _read_again("int8", 0, 0, (-300, 90))
    assert tvm.ir.structural_equal(_after(func), func)
