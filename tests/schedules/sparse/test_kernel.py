"""The kernel alone: the numbers of numpy, however it is divided."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import tir

from tests.relay_modules import REASSOCIATING
from tests.schedules.sparse_blocks import pruned
from tests.verified_kernels import assert_kernel
from tvm_fusionx.expressions.sparse_products import Index
from tvm_fusionx.schedules.sparse.gather import in_place
from tvm_fusionx.schedules.sparse.kernel import SparseKernel, Weights
from tvm_fusionx.sparse import find_lists, store_lists
from tvm_fusionx.sparse.product_of import dense_product
from tvm_fusionx.sparse.tiling import Tiling

ROWS, DEPTH, OUTPUTS, WIDTH, LANES = 7, 20, 64, 16, 8


@pytest.mark.parametrize(
    "tiling",
    [
        Tiling(1, 3, 1, 1, 7, 1, False),
        Tiling(1, 2, 1, 1, 4, 2, True),
        Tiling(1, 1, 4, 1, 7, 4, False),
    ],
    ids=str,
)
def test_numbers(tiling: Tiling) -> None:
    weight = pruned(OUTPUTS, DEPTH, WIDTH, 0.4)
    lists = find_lists(weight, WIDTH, tasks=tiling.group_parts)
    stored = store_lists(weight, lists, LANES)
    data = tir.decl_buffer((ROWS, DEPTH), "float32", "data")
    values = tir.decl_buffer(stored.values.shape, "float32", "values")
    index = tir.decl_buffer(stored.index.shape, "int32", "index")
    found = tir.decl_buffer((ROWS, OUTPUTS), "float32", "found")
    parts = Index.of(stored.values.shape, stored.index.shape, OUTPUTS)
    assert parts.groups == lists.groups
    product = dense_product(ROWS, DEPTH, lists.groups, lists.entries, WIDTH // LANES, LANES)

    def data_of(ib: Any, image: Any, top: Any, left: Any) -> Any:
        return in_place(data, image, left, DEPTH)

    def store(
        sums: Any, places: list[int], image: Any, channel: Any, row: Any, column: Any
    ) -> None:
        for at, place in enumerate(places):
            sums.store(
                lambda row, lane, value: tir.BufferStore(found, value, [row, channel + lane]),
                (column + at,),
                place,
            )

    kernel = SparseKernel(product, tiling, Weights(values, index, parts), data_of, store)
    func = tir.PrimFunc([data, values, index, found], kernel.build(parallel=False))
    x = np.random.default_rng(1).standard_normal((ROWS, DEPTH)).astype("float32")
    expected = (x.astype("float64") @ weight.T.astype("float64")).astype("float32")
    assert_kernel(func, "llvm", [x, stored.values, stored.index], [expected], REASSOCIATING)
