from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.frontend.onnx_nodes import Case, check, floats, model_of
from tests.sampled import few_fast
from tvm_fusionx.frontend import from_onnx

SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
]


@pytest.mark.parametrize("known", few_fast([(), (1,)], 1), ids=["computed", "known"])
def test_matrix_products_of_all_ranks(known: tuple[int, ...]) -> None:
    check([Case("MatMul", [floats(*a), floats(*b, seed=1)], known=known) for a, b in SHAPES])


def test_gemm_scales_transposes_and_adds() -> None:
    a, b, c = floats(3, 4), floats(4, 5, seed=1), floats(5, seed=2)
    check(
        [
            Case("Gemm", [a, b, c], known=[1, 2]),
            Case("Gemm", [a.T.copy(), b.T.copy()], {"transA": 1, "transB": 1}),
            Case("Gemm", [a, b, c], {"alpha": 0.5, "beta": 2.0}),
            Case("Gemm", [a, b, np.float32(2.0)]),
        ]
    )


def test_fractions_of_whole_numbers_are_no_zeros() -> None:
    a, b = (np.arange(12, dtype="int32").reshape(shape) - 5 for shape in ((3, 4), (4, 3)))
    c = np.array([-3, 2, 7], "int32")
    exact = (0.5 * (a @ b) + 1.5 * c).astype("int32")
    check([Case("Gemm", [a, b, c], {"alpha": 0.5, "beta": 1.5}, known=[1], expected=[exact])])


def test_weights_are_transposed_while_compiling() -> None:
    model, _ = model_of([Case("MatMul", [floats(2, 3, 4), floats(4, 5)], known=[1])])
    names: list[str] = []
    tvm.relay.analysis.post_order_visit(
        from_onnx(model)[0]["main"],
        lambda e: names.append(e.op.name) if isinstance(e, tvm.relay.Call) else None,
    )
    assert names == ["reshape", "nn.dense", "reshape"]
