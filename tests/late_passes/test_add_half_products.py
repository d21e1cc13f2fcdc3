"""Products of halves become instructions that take halves; the sums are the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.late_passes.add_half_products import add_half_products
from tvm_fusionx.lowering import compile_kernel, register
from tvm_fusionx.schedules import resolve_target

LANES = 4
LENGTH = 64
TARGET = "llvm -mtriple=aarch64-linux-gnu -mcpu={}"


def _kernel(
    products: Sequence[tuple[int, int, int]], kind: str = "float16", weights: str = "float16"
) -> tir.PrimFunc:
    """Return a line of products, each a number of a sum and where its two vectors begin."""
    x = tir.decl_buffer((LENGTH,), kind, "x")
    w = tir.decl_buffer((LENGTH,), weights, "w")
    count = 1 + max(number for number, _, _ in products)
    out = tir.decl_buffer((count * LANES,), "float32", "out")
    sums = tir.decl_buffer((count,), f"float32x{LANES}", "sums", scope="local")

    def vector(buffer: Any, start: int) -> Any:
        load = tir.BufferLoad(buffer, [tir.Ramp(start, 1, LANES)])
        single = f"float32x{LANES}"
        return load if str(load.dtype) == single else tir.Cast(single, load)

    line, begun = [], set()
    for number, data, tap in products:
        value = vector(x, data) * vector(w, tap)
        if number in begun:
            value = tir.BufferLoad(sums, [number]) + value
        begun.add(number)
        line.append(tir.BufferStore(sums, value, [number]))
    line += [
        tir.BufferStore(out, tir.BufferLoad(sums, [each]), [tir.Ramp(each * LANES, 1, LANES)])
        for each in range(count)
    ]
    true = tir.const(1, "bool")
    body = tir.Allocate(sums.data, sums.dtype, sums.shape, true, tir.SeqStmt(line))
    return tir.PrimFunc([x, w, out], body)


# Two sums of two taps, over three neighbours and one that has none.
WINDOW = [(0, 0, 0), (0, 4, 4), (1, 4, 0), (1, 8, 4), (2, 12, 0), (2, 20, 4)]


def _names(func: tir.PrimFunc, core: str) -> list[str]:
    register()
    source: str = compile_kernel(func, resolve_target(TARGET.format(core)), "kernel").get_source(
        "asm"
    )
    return [line.split()[0] for line in source.splitlines() if line.strip()]


def test_no_vector_is_widened() -> None:
    names = _names(_kernel(WINDOW), "cortex-x2")
    assert names.count("fmlal") + names.count("fmlal2") == len(WINDOW)
    # Neighbours 0 and 4, and 8 and 12, are one register; what stands alone fills a lower half.
    assert names.count("fmlal2") == 3
    assert not any(name.startswith("fcvtl") for name in names)


def test_a_core_without_it_widens() -> None:
    names = _names(_kernel(WINDOW), "cortex-a76")
    assert not any(name.startswith("fmlal") for name in names)
    assert any(name.startswith("fcvtl") for name in names)


@pytest.mark.parametrize(
    "func",
    [
        _kernel(WINDOW, weights="float32"),
        _kernel(WINDOW, "float32", "float32"),
        # No two vectors lie side by side.
        _kernel([(0, 0, 0), (1, 8, 0), (2, 16, 0)]),
    ],
    ids=["weights of float32", "float32", "no neighbours"],
)
def test_other_lines_stay(func: tir.PrimFunc) -> None:
    module = tvm.IRModule({"main": func})
    assert tvm.ir.structural_equal(add_half_products()(module), module)
