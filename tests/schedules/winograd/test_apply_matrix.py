"""Constant matrices as sums that share what can be shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te, tir

from tvm_fusionx.expressions.minimal_filtering import FILTERINGS
from tvm_fusionx.schedules.winograd.apply_matrix import apply_matrix

MATRICES = {
    f"{name} of F({tile})": getattr(filtering, name)
    for tile, filtering in FILTERINGS.items()
    for name in ("input_matrix", "output_matrix")
}
MATRICES["no pairs"] = np.array([[1.0, 2.0, 0.0], [-3.0, -3.0, 0.0], [-1.0, 0.0, 0.0]])


class _Count:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def __call__(self, value: Any) -> Any:
        self.kept.append(value)
        return value


@pytest.mark.parametrize("name", MATRICES)
def test_the_sums_are_the_product_with_the_matrix(name: str) -> None:
    matrix = MATRICES[name]
    rows, columns = matrix.shape
    values = np.random.default_rng(0).standard_normal(columns).astype("float32")
    source = te.placeholder((columns,), "float32", "source")
    terms = apply_matrix(matrix, [source[tir.const(k, "int32")] for k in range(columns)], _Count())

    def pick(row: Any) -> Any:
        chosen = terms[0]
        for position in range(1, rows):
            chosen = tir.Select(row == position, terms[position], chosen)
        return chosen

    result = te.compute((rows,), pick)
    built = tvm.build(te.create_prim_func([source, result]), target="llvm")
    found = tvm.nd.empty((rows,), "float32")
    built(tvm.nd.array(values), found)
    np.testing.assert_allclose(found.numpy(), matrix @ values, rtol=1e-5, atol=1e-5)


def test_pairs_of_points_share_two_sums() -> None:
    count = _Count()
    values = [tir.Var(f"v{k}", "float32") for k in range(6)]
    apply_matrix(FILTERINGS[4].input_matrix, values, count)
    assert len(count.kept) == 4
    count = _Count()
    apply_matrix(FILTERINGS[4].output_matrix, values, count)
    assert len(count.kept) == 4
