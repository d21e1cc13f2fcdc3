from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, check, floats
from tvm_fusionx.errors import UnsupportedOperatorError

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

CACHE, UPDATE = floats(2, 3, 5, 4), floats(2, 3, 2, 4, seed=1)
STARTS = np.array([1, 3], "int64")


def test_updates_are_written_from_a_position_on() -> None:
    circular = {"mode": "circular"}
    check(
        [
            Case("TensorScatter", [CACHE, UPDATE]),
            Case("TensorScatter", [CACHE, UPDATE, STARTS]),
            Case("TensorScatter", [CACHE, UPDATE, STARTS], known=[2]),
            Case("TensorScatter", [CACHE, UPDATE, STARTS + 1], circular),
            Case("TensorScatter", [CACHE, UPDATE, STARTS + 9], circular),
            Case("TensorScatter", [CACHE, CACHE * 2, STARTS - 3], circular),
            Case("TensorScatter", [CACHE, floats(2, 3, 5, 1), STARTS], {"axis": 3}),
            Case("TensorScatter", [CACHE[:, 0], UPDATE[:, 0], STARTS], {"axis": 1}),
        ],
        24,
    )


@pytest.mark.parametrize(
    ("inputs", "attributes", "match"),
    [
        ([CACHE, UPDATE[:, :2]], {}, "an update like the cache"),
        ([CACHE, UPDATE], {"axis": 0}, "axis 0"),
        ([CACHE, UPDATE], {"mode": "spiral"}, "spiral"),
        ([CACHE, UPDATE, STARTS[:1]], {}, r"write_indices of shape \[2\]"),
        ([CACHE, UPDATE, STARTS + 1], {}, "write_indices of 0 to 3"),
    ],
)
def test_updates_that_do_not_fit_are_refused(inputs: Any, attributes: Any, match: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=match):
        check([Case("TensorScatter", inputs, attributes, known=[2], expected=[])], 24)
