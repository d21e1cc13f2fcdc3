"""Remainders of remainders: TVM alone reads the wrong element, our kernels do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import te, tir

from tvm_fusionx.tir.nested_remainders import keep_nested_remainders


def _fused(outer: int, inner: int, shift: int, modulus: int) -> Any:
    """Return a kernel that reads by ``(j + shift) % modulus`` in one loop over i and j."""
    data = te.placeholder((modulus,), name="data")
    out = te.compute((outer, inner), lambda i, j: data[(j + shift) % modulus], name="out")
    sch = tir.Schedule(te.create_prim_func([data, out], index_dtype_override="int64"))
    sch.fuse(*sch.get_loops(sch.get_block("out")))
    return sch.mod["main"]


def _run(func: Any, outer: int, inner: int, modulus: int) -> np.ndarray:
    data = np.arange(modulus, dtype="float32")
    out = tvm.nd.array(np.zeros((outer, inner), "float32"))
    tvm.build(func, "llvm")(tvm.nd.array(data), out)
    return out.numpy()


def _expected(outer: int, inner: int, shift: int, modulus: int) -> np.ndarray:
    row = ((np.arange(inner) + shift) % modulus).astype("float32")
    return np.tile(row, (outer, 1))


def test_tvm_alone_is_wrong() -> None:
    """When this fails, TVM is cured and the module can go."""
    assert (_run(_fused(3, 8, 2, 3), 3, 8, 3) != _expected(3, 8, 2, 3)).any()


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(-7, 7), st.integers(1, 9))
def test_reads_by_a_remainder(outer: int, inner: int, shift: int, modulus: int) -> None:
    func = keep_nested_remainders(_fused(outer, inner, shift, modulus))
    assert (_run(func, outer, inner, modulus) == _expected(outer, inner, shift, modulus)).all()


@pytest.mark.parametrize(("inner", "modulus"), [(8, 4), (3, 3)])
def test_an_index_that_tvm_gets_right_is_left_alone(inner: int, modulus: int) -> None:
    func = _fused(3, inner, 0, modulus)
    assert tvm.ir.structural_equal(keep_nested_remainders(func), func)
    assert "truncmod" not in keep_nested_remainders(func).script()
