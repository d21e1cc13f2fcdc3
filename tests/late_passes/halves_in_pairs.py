"""Straight lines of stores of halves, lowered for a Cortex-A76 and run on this machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import tir

from tvm_fusionx.late_passes.context import ADD_LOWER_PASS, AFTER_LOWERING

LANES = 4
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -mattr=+neon,+fullfp16"

# Takes the input's buffer and the first element of a vector; returns a vector of float32.
Value = Callable[[Any, Any], Any]


def widened(x: Any, start: Any) -> Any:
    """Return a vector of halves as float32."""
    return tir.Cast(f"float32x{LANES}", tir.BufferLoad(x, [tir.Ramp(start, 1, LANES)]))


def doubled(x: Any, start: Any) -> Any:
    """Return twice a vector of float32."""
    return tir.BufferLoad(x, [tir.Ramp(start, 1, LANES)]) * tir.Broadcast(
        tir.const(2, "float32"), LANES
    )


def lines(
    starts: Sequence[int], value: Value, source: str, result: str, *, rows: int = 3, wide: int = 64
) -> Any:
    """Return a function that stores a vector at each of `starts`, in each of some rows."""
    x = tir.decl_buffer((rows * wide,), source, "x")
    y = tir.decl_buffer((rows * wide,), result, "y")
    ib = tir.ir_builder.create()
    with ib.for_range(0, rows, "row") as row:
        for start in starts:
            at = row * wide + start
            found = value(x, at)
            if result == "float16":
                found = tir.Cast(f"float16x{LANES}", found)
            ib.emit(tir.BufferStore(y, found, [tir.Ramp(at, 1, LANES)]))
    return tir.PrimFunc([x, y], ib.get())


def lowered(func: Any, *passes: Any) -> Any:
    """Return a function behind passes."""
    config = {ADD_LOWER_PASS: [(AFTER_LOWERING, each) for each in passes]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        return tvm.lower(func)["main"]


def run(func: Any, x: np.ndarray, result: str, *passes: Any) -> np.ndarray:
    """Return what a function behind passes stores; 7 where it stores nothing."""
    config = {ADD_LOWER_PASS: [(AFTER_LOWERING, each) for each in passes]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        built = tvm.build(func, "llvm")
    y = tvm.nd.array(np.full(x.shape, 7, result))
    built(tvm.nd.array(x), y)
    return y.numpy()


def instructions(func: Any, *passes: Any) -> Counter[str]:
    """Return the instructions for a Cortex-A76, and how many there are of each."""
    config = {ADD_LOWER_PASS: [(AFTER_LOWERING, each) for each in passes]}
    with tvm.transform.PassContext(opt_level=3, config=config):
        code = tvm.build(func, target=ARM).get_source("asm")
    words = [line.split()[0] for line in code.splitlines() if line.startswith("\t")]
    return Counter(word for word in words if not word.startswith("."))


def lanes_loaded(func: Any) -> list[int]:
    """Return the lanes of each load of halves, in the order of the code."""
    return _lanes(func, tir.BufferLoad)


def lanes_stored(func: Any) -> list[int]:
    """Return the lanes of each store of halves, in the order of the code."""
    return _lanes(func, tir.BufferStore)


def _lanes(func: Any, kind: Any) -> list[int]:
    found: list[int] = []

    def visit(node: Any) -> None:
        if isinstance(node, kind) and node.buffer.dtype == "float16":
            found.append(int(node.indices[0].lanes))

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found
