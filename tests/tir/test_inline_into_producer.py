from __future__ import annotations

import numpy as np
import pytest
import tvm
from tvm import relay, te

import tvm_fusionx as fx
from tests.relay_modules import TARGET, const, var
from tests.sampled import few_fast
from tvm_fusionx.report.bench.plain_tvm import build_plain, run_once
from tvm_fusionx.tir.inline_into_producer import inline_into_producer

ROWS = 4


def _schedule(reader: str) -> tvm.tir.Schedule:
    x = te.placeholder((ROWS, ROWS), name="x")
    ids = te.placeholder((ROWS,), "int32", name="ids")
    producer = te.compute((ROWS, ROWS), lambda i, j: x[i, j] * 2, name="producer")
    bodies = {
        "elementwise": lambda i, j: producer[i, j] + 1,
        "transposed": lambda i, j: producer[j, i] + 1,
        "gathered": lambda i, j: producer[ids[i], j],
        "first rows": lambda i, j: producer[i, 0] + j,
        "a column": lambda i: producer[i, 1] + 1,
        "some columns": lambda i, j: producer[i, j + 1] + 1,
        "a constant": lambda i, j: producer[i, j] + x[2, 1],
    }
    shapes = {"a column": (ROWS,), "some columns": (ROWS, ROWS - 1)}
    out = te.compute(shapes.get(reader, (ROWS, ROWS)), bodies[reader], name="out")
    return tvm.tir.Schedule(te.create_prim_func([x, ids, out]))


@pytest.mark.parametrize(
    ("reader", "inlined"),
    [
        *[("elementwise", True), ("transposed", True), ("some columns", True)],
        *[("a constant", True), ("gathered", False), ("first rows", False), ("a column", False)],
    ],
)
def test_only_a_map_with_an_inverse_is_inlined(reader: str, inlined: bool) -> None:
    assert inline_into_producer(_schedule(reader), "out") is inlined


@pytest.mark.parametrize("column", [0, 1, 7])
def test_one_column_of_a_product_is_that_column(column: int) -> None:
    product = relay.nn.dense(var("x", 5, 6), const(8, 6))
    picked = relay.reshape(relay.strided_slice(product, [column], [column + 1], axes=[1]), (5,))
    function = relay.Function(relay.analysis.free_vars(picked), relay.abs(picked))
    module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    inputs = {"x": np.random.default_rng(0).standard_normal((5, 6)).astype("float32")}
    (ours,) = run_once(fx.build(module, TARGET), inputs)
    (plain,) = run_once(build_plain(module, TARGET), inputs)
    np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("picked", few_fast([(0, 1), (1, 0), (0, 0)], 1))
def test_a_gather_after_a_convolution_picks_what_its_indices_say(picked: tuple[int, int]) -> None:
    x = var("x", 2, 2, 4, 6)
    ids = relay.var("ids", shape=(2,), dtype="int64")
    kernel = const(2, 2, 1, 1, seed=1)
    convolved = relay.nn.relu(relay.nn.conv2d(x, kernel, channels=2, kernel_size=(1, 1)))
    function = relay.Function([x, ids], relay.gather_nd(convolved, ids, index_rank=2))
    module = relay.transform.InferType()(tvm.IRModule.from_expr(function))
    inputs = {
        "x": np.random.default_rng(0).standard_normal((2, 2, 4, 6)).astype("float32"),
        "ids": np.array(picked, "int64"),
    }
    (ours,) = run_once(fx.build(module, TARGET), inputs)
    (plain,) = run_once(build_plain(module, TARGET), inputs)
    np.testing.assert_allclose(ours, plain, rtol=1e-5, atol=1e-6)
