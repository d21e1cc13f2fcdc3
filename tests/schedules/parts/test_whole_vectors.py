"""A vector is stored whole where the test of its last lane holds, and lane by lane elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import tir

from tvm_fusionx.schedules.parts.whole_vectors import whole_or_by_lane

LANES = 16

Test = Callable[[Any, Any], Any]

FALLING: dict[str, Test] = {
    "an index": lambda start, lane: start * LANES + lane < 40,
    "a wide index": lambda start, lane: (
        tir.Cast("int64", start * LANES + lane) < tir.IntImm("int64", 40)
    ),
    "a factor": lambda start, lane: start * LANES + lane * 2 <= 48,
    "two": lambda start, lane: tir.all(start * LANES + lane < 40, start + lane < 17),
    "one of another variable": lambda start, lane: start < 2,
}
OTHERS: dict[str, Test] = {
    "an index that falls": lambda start, lane: start * LANES - lane < 20,
    "a factor below zero": lambda start, lane: start * LANES + lane * -1 < 20,
    "a bound that moves": lambda start, lane: start * LANES + lane < 30 + lane * 2,
    "a remainder": lambda start, lane: tir.floormod(start * LANES + lane, 3) < 1,
    "one of two": lambda start, lane: tir.any(start * LANES + lane < 40, lane < 1),
}


def _stored(test: Test) -> tuple[Any, Any]:
    """Return what stores a number for each lane that passes, over three vectors, and the loop."""
    marks = tir.decl_buffer((3 * LANES,), "int32", name="marks")
    start = tir.Var("start", "int32")

    def stmt_of(lane: Any) -> Any:
        store = tir.BufferStore(marks, lane + 1, [start * LANES + lane])
        return tir.IfThenElse(test(start, lane), store, None)

    made = whole_or_by_lane(LANES, stmt_of)
    loop = tir.For(start, 0, 3, tir.ForKind.SERIAL, made)
    handle = tir.Var("handle", "handle")
    func = tir.PrimFunc([handle], loop, buffer_map={handle: marks})
    return func.with_attr("global_symbol", "main"), made


@pytest.mark.parametrize("name", [*FALLING, *OTHERS])
def test_what_passes_is_stored(name: str) -> None:
    test = {**FALLING, **OTHERS}[name]
    func, made = _stored(test)
    marks = tvm.nd.array(np.zeros(3 * LANES, "int32"))
    tvm.build(func, target="llvm")(marks)
    analyzer = tvm.arith.Analyzer()
    passes = [
        bool(analyzer.simplify(test(tir.const(place // LANES), tir.const(place % LANES))))
        for place in range(3 * LANES)
    ]
    expected = np.where(passes, np.arange(3 * LANES) % LANES + 1, 0)
    assert np.array_equal(marks.numpy(), expected)
    assert 0 < sum(passes) < 3 * LANES
    is_vector = isinstance(made, tir.IfThenElse)
    assert is_vector is (name in FALLING)
    if is_vector:
        assert made.then_case.kind == tir.ForKind.VECTORIZED
        assert made.else_case.kind == tir.ForKind.UNROLLED


def test_without_a_test_it_is_a_vector() -> None:
    buffer = tir.decl_buffer((LANES,), "int32")
    made = whole_or_by_lane(LANES, lambda lane: tir.BufferStore(buffer, lane, [lane]))
    assert made.kind == tir.ForKind.VECTORIZED
