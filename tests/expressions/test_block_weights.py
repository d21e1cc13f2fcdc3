"""Operators on weights in blocks: their types, and their numbers by the expression alone."""

from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay, te

import tvm_fusionx as fx
from tests.relay_modules import EXACT, REASSOCIATING, TARGET, assert_close, module, var
from tests.schedules.packed_blocks import KINDS, drawn, product, rounded
from tvm_fusionx.expressions.block_weights import BLOCK, extents, number_at, rounded_dense, rows
from tvm_fusionx.layout.block_weights import in_panels, in_word_panels
from tvm_fusionx.report.bench.plain_tvm import run_once

ROWS, LENGTH = 8, 64


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("layout", ["rows", "panels", "words"])
def test_numbers_of_rows(kind: str, layout: str) -> None:
    weight = drawn(kind, ROWS, LENGTH)
    parts = weight.arrays if layout == "rows" else [in_panels(part, 4) for part in weight.arrays]
    if layout == "words":
        parts = [in_word_panels(weight.levels, 4), *parts[1:]]
    tensors = [te.placeholder(part.shape, str(part.dtype)) for part in parts]
    assert extents(tensors[0]) == (ROWS, LENGTH)
    found = te.compute((ROWS, LENGTH), lambda n, k: number_at(tensors, n, k))
    built = tvm.build(te.create_schedule(found.op), [*tensors, found], "llvm")
    result = tvm.nd.empty((ROWS, LENGTH))
    built(*map(tvm.nd.array, parts), result)
    assert_close([result.numpy()], [weight.floats()], EXACT)


@pytest.mark.parametrize("target", ["llvm", TARGET])
def test_rounded_data(target: str) -> None:
    """Blocks of nothing but zeros stay zeros, and a NaN stays in its row."""
    weight = drawn("Q4_1", ROWS, LENGTH)
    constants = [relay.const(part, str(part.dtype)) for part in weight.arrays]
    mod = module(rounded_dense(var("x", 3, LENGTH), constants))
    x = np.random.default_rng(0).standard_normal((3, LENGTH)).astype("float32")
    x[0, :BLOCK], x[2, 3] = 0, np.nan
    (found,) = run_once(fx.build(mod, target), {"x": x})
    expected = rounded(x[:2]) @ weight.floats().T
    assert_close([found[:2]], [expected.astype("float32")], REASSOCIATING)
    assert np.isnan(found[2]).all()


def test_types() -> None:
    parts = drawn("Q4_1", ROWS, LENGTH).arrays
    assert module(product(3, parts, LENGTH))["main"].ret_type == relay.TensorType((3, ROWS))
    weight = [var(f"p{at}", *part.shape, dtype=str(part.dtype)) for at, part in enumerate(parts)]
    found = module(rows(var("i", 5, dtype="int32"), weight))["main"]
    assert found.ret_type == relay.TensorType((5, LENGTH))


def test_rows_outside_are_the_outermost() -> None:
    weight = drawn("Q8_0", ROWS, LENGTH)
    constants = [relay.const(part, str(part.dtype)) for part in weight.arrays]
    mod = module(rows(var("i", 4, dtype="int32"), constants))
    found = run_once(fx.build(mod, "llvm"), {"i": np.asarray([-5, 1, 7, 99], "int32")})
    assert_close(found, [weight.floats()[[0, 1, 7, 7]]], REASSOCIATING)
