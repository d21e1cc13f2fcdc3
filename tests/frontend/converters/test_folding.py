from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats, ints
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend.converters.folding import covering

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow


def _case(image: Any, block: Any, blocks: int, **attributes: Any) -> Case:
    columns = floats(2, 3 * int(np.prod(block)), blocks)
    return Case("Col2Im", [columns, ints(*image), ints(*block)], attributes, known=[1, 2])


def test_blocks_are_added_up() -> None:
    cases = [
        _case((5, 5), (1, 5), 5),
        _case((5, 6), (3, 2), 15),
        _case((6, 6), (2, 3), 6, strides=[2, 3]),
        _case((5, 5), (3, 3), 9, pads=[1, 1, 1, 1], strides=[2, 2]),
        _case((6, 6), (2, 2), 16, dilations=[2, 2]),
        _case((7, 6), (2, 2), 9, strides=[3, 2], pads=[1, 0, 1, 0]),
    ]
    check([by_onnxruntime(case, 18) for case in cases], 18)
    check([_case((4, 4, 4), (2, 2, 2), 8, strides=[2, 2, 2])], 18)


def test_blocks_that_do_not_overlap_take_one_gather() -> None:
    assert covering(6, 2, 2, 1, 0, 3).shape == (1, 6, 2)
    assert covering(6, 3, 1, 1, 0, 4).shape == (3, 6, 2)
    # A stride beyond the block leaves positions that no block covers.
    assert covering(5, 1, 3, 1, 0, 2)[0].tolist() == [[0, 0], [-1, -1], [-1, -1], [0, 1], [-1, -1]]


@pytest.mark.parametrize(
    ("case", "match"),
    [
        (_case((5, 5), (2, 2), 15), "4 rows and 16 blocks"),
        (_case((5, 5), (2, 2), 16, strides=[0, 1]), "steps of at least 1"),
        (_case((5, 5), (2, 2), 16, pads=[1, 1]), "one number of each kind"),
    ],
)
def test_columns_that_do_not_fit_are_refused(case: Case, match: str) -> None:
    with pytest.raises(UnsupportedOperatorError, match=match):
        check([Case(case.op_type, case.inputs, case.attributes, [1, 2], expected=[])], 18)
