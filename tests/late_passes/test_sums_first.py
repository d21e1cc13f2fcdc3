"""An empty line of assembly keeps sums before what is loaded behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import tir

from tests.late_passes.halves_in_pairs import LANES, instructions
from tvm_fusionx.late_passes.sums_first import FUNCTION, is_sum, sums_first, with_sums_first


def _summing(*, is_ordered: bool) -> tuple[Any, list[Any]]:
    """Return a function that adds up two vectors in registers, and the stores of its sums."""
    x, y = (tir.decl_buffer((LANES * 2,), "float32", name) for name in "xy")
    sums = tir.decl_buffer((1,), f"float32x{LANES}", "sums", scope="local")
    first, second = (tir.BufferLoad(x, [tir.Ramp(at, 1, LANES)]) for at in (0, LANES))
    stores = [
        tir.BufferStore(sums, first, [0]),
        tir.BufferStore(sums, tir.BufferLoad(sums, [0]) + second, [0]),
    ]
    out = tir.BufferStore(y, tir.BufferLoad(sums, [0]), [tir.Ramp(0, 1, LANES)])
    between = sums_first(stores[:1]) if is_ordered else []
    body = tir.SeqStmt([stores[0], *between, stores[1], out])
    true = tir.const(1, "bool")
    held = tir.Allocate(sums.data, sums.dtype, sums.shape, true, body)
    return tir.PrimFunc([x, y], with_sums_first(held) if is_ordered else held), stores


def test_an_order_is_no_instruction_and_no_access_of_the_stack() -> None:
    wanted, found = (
        # LLVM writes a comment on either side of a line of assembly.
        {
            word: n
            for word, n in instructions(_summing(is_ordered=each)[0]).items()
            if "/" not in word
        }
        for each in (False, True)
    )
    assert found["fadd"] == 1
    # Two neighbours are no longer one load: the second waits for the sum.
    assert sum(found.values()) <= sum(wanted.values()) + 1
    assert found.get("bl", 0) == wanted.get("bl", 0)


def test_each_sum_has_one_statement() -> None:
    _, stores = _summing(is_ordered=False)
    (only,) = sums_first(stores)
    assert only.value.args[0].value == FUNCTION


def test_what_lies_in_memory_is_no_sum() -> None:
    _, stores = _summing(is_ordered=False)
    assert all(map(is_sum, stores))
    x = tir.decl_buffer((LANES,), "float32", "x")
    zeros = tir.Broadcast(tir.const(np.float32(0)), LANES)
    assert not is_sum(tir.BufferStore(x, zeros, [tir.Ramp(0, 1, LANES)]))
