"""Numbers that LLVM cannot foresee: they are what they are, and loads stay where they stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.lowering import compile_kernel
from tvm_fusionx.schedules import resolve_target
from tvm_fusionx.schedules.parts.hidden_numbers import hidden, with_hidden_numbers

TURNS = 5


def _kernel(*, is_hidden: bool) -> tir.PrimFunc:
    """Return ``total[i] = more[i] * factor[3]``, its factor loaded at a hidden place or not."""
    factor, more, total = (
        tir.decl_buffer((size,), "float32", name)
        for name, size in (("factor", 4), ("more", TURNS), ("total", TURNS))
    )
    ib = tir.ir_builder.create()
    with ib.for_range(0, TURNS, "turn") as turn:
        place: Any = hidden(ib, 3) if is_hidden else 3
        product = tir.BufferLoad(more, [turn]) * tir.BufferLoad(factor, [place])
        ib.emit(tir.BufferStore(total, product, [turn]))
    stmt = ib.get()
    return tir.PrimFunc([factor, more, total], with_hidden_numbers(stmt) if is_hidden else stmt)


def test_a_hidden_number_is_the_number() -> None:
    kernel = compile_kernel(_kernel(is_hidden=True), resolve_target("llvm"), "kernel")
    factor, more = np.arange(4, dtype="float32"), np.arange(TURNS, dtype="float32")
    total = tvm.nd.array(np.zeros(TURNS, "float32"))
    kernel(tvm.nd.array(factor), tvm.nd.array(more), total)
    np.testing.assert_array_equal(total.numpy(), 3 * more)


@pytest.mark.parametrize(("is_hidden", "lines"), [(True, TURNS), (False, 0)])
def test_each_turn_has_a_number_of_its_own(is_hidden: bool, lines: int) -> None:
    target = resolve_target("llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76")
    code = compile_kernel(_kernel(is_hidden=is_hidden), target, "kernel").get_source("asm")
    # LLVM writes the turns out, and marks each line of assembly that it keeps.
    assert code.count("//APP") == lines
