from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow


def test_determinants_of_many_sizes() -> None:
    cases = []
    for rows in (1, 2, 3, 5, 8):
        x = floats(2, 3, rows, rows)
        expected = np.linalg.det(x.astype("float64")).astype("float32")
        cases.append(Case("Det", [x], expected=[expected]))
    cases.append(Case("Det", [floats(4, 4)]))
    check(cases, 22)


def test_a_pivot_is_found_where_the_first_is_small_or_zero() -> None:
    swap = np.array([[0, 1, 0], [1, 0, 0], [0, 0, 1]], "float32")
    small = np.array([[1e-12, 1], [1, 1]], "float32")
    singular = np.array([[1, 2, 3], [2, 4, 6], [1, 0, 1]], "float32")
    check(
        [
            Case("Det", [swap], expected=[np.float32(-1)]),
            Case("Det", [small], expected=[np.float32(-1)]),
            Case("Det", [singular], expected=[np.float32(0)]),
            Case("Det", [np.zeros((3, 3), "float32")], expected=[np.float32(0)]),
        ],
        22,
    )


@pytest.mark.parametrize("shape", [(3, 4), (4,), (100, 100)])
def test_what_has_no_determinant_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UnsupportedOperatorError, match="Det node"):
        check([Case("Det", [floats(*shape)], expected=[])], 22)
