"""Arrays of a kernel that only hold what was widened hold bits; others stay float32."""

from __future__ import annotations

from typing import Any

import pytest
import tvm
from tvm import tir

from tvm_fusionx.tir.brain_floats import widened
from tvm_fusionx.tir.narrow_copies import with_narrow_copies

LENGTH = 8


def _func(value: Any) -> tir.PrimFunc:
    """Return ``out[i] = copy[i]`` behind ``copy[i] = value(widened x[i])``."""
    x = tir.decl_buffer((LENGTH,), "bfloat16", "x")
    out = tir.decl_buffer((LENGTH,), "float32", "out")
    copy = tir.decl_buffer((LENGTH,), "float32", "copy")
    i, j = tir.Var("i", "int32"), tir.Var("j", "int32")
    fill = tir.BufferStore(copy, value(widened(tir.BufferLoad(x, [i])), i), [i])
    read = tir.BufferStore(out, tir.BufferLoad(copy, [j]), [j])
    loops = [
        tir.For(var, 0, LENGTH, tir.ForKind.SERIAL, body) for var, body in ((i, fill), (j, read))
    ]
    root = tir.Block([], [], [], "root", tir.SeqStmt(loops), alloc_buffers=[copy])
    params = [tir.Var("a", "handle"), tir.Var("b", "handle")]
    body = tir.BlockRealize([], tir.const(True), root)
    return tir.PrimFunc(params, body, None, dict(zip(params, (x, out), strict=True)))


def _padded(value: Any, i: Any) -> Any:
    return tir.if_then_else(i < LENGTH // 2, value, tir.const(0, "float32"))


@pytest.mark.parametrize("value", [lambda value, i: value, _padded], ids=["plain", "padded"])
def test_a_copy_holds_bits(value: Any) -> None:
    func = with_narrow_copies(_func(value))
    (copy,) = func.body.block.alloc_buffers
    assert copy.dtype == "uint16"
    # Built, it says that each load and store has its buffer's type.
    kernel = tvm.build(func.with_attr("global_symbol", "copied"), target="llvm")
    raw = tvm.nd.empty((LENGTH,), "bfloat16")
    bits = (tvm.nd.array([0x3F80] * LENGTH).numpy() + range(LENGTH)).astype("uint16")
    raw.copyfrom(bits)
    out = tvm.nd.empty((LENGTH,), "float32")
    kernel(raw, out)
    expected = (bits.astype("uint32") << 16).view("float32")
    if value is _padded:
        expected[LENGTH // 2 :] = 0
    assert (out.numpy() == expected).all()


@pytest.mark.parametrize(
    "value",
    [
        lambda value, i: value + tir.const(1, "float32"),
        lambda value, i: tir.if_then_else(i < 2, value, tir.const(1, "float32")),
        lambda value, i: tir.Cast("float32", i),
    ],
    ids=["computed", "another number", "no float"],
)
def test_what_is_computed_stays_single(value: Any) -> None:
    func = _func(value)
    assert tvm.ir.structural_equal(with_narrow_copies(func), func)
