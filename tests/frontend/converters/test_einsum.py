from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, check, floats, model_of
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

EQUATIONS = {
    "ij->ji": [(3, 4)],
    "ij->i": [(3, 4)],
    "ij->": [(3, 4)],
    "...ii->...i": [(2, 3, 3)],
    "ij,jk": [(3, 4), (4, 5)],
    "i,i": [(4,), (4,)],
    "i,j->ij": [(3,), (4,)],
    "bhqd,bhkd->bhqk": [(2, 3, 4, 5), (2, 3, 6, 5)],
    "bhqk,bkhd->bqhd": [(2, 3, 4, 6), (2, 6, 3, 5)],
    "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 5)],
    "bid,bjd,bk->bij": [(2, 3, 4), (2, 5, 4), (2, 3)],
    "ij,ij->ij": [(3, 4), (3, 4)],
}


def test_equations_agree_with_numpy() -> None:
    cases = []
    for equation, shapes in EQUATIONS.items():
        operands = [floats(*shape, seed=seed) for seed, shape in enumerate(shapes)]
        expected = np.einsum(equation, *operands)
        cases.append(Case("Einsum", operands, {"equation": equation}, expected=[expected]))
    check(cases)


def test_sizes_that_broadcast_are_refused() -> None:
    operands = [floats(3, 1), floats(4, 5)]
    model, _ = model_of([Case("Einsum", operands, {"equation": "ij,jk->ik"})])
    with pytest.raises(UnsupportedOperatorError):
        from_onnx(model)
