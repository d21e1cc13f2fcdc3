from __future__ import annotations

import numpy as np
import pytest

from tvm_fusionx.compress.prune.layouts import CONV, CONV_TRANSPOSE, LINEAR, LSTM, Layout

LAYOUTS = [
    Layout("a", CONV, (6, 2, 3, 3), 3),
    Layout("b", CONV_TRANSPOSE, (6, 4, 3, 3), 2, 0, True),
    Layout("c", LINEAR, (5, 7), 1, 0, True),
    Layout("d", LINEAR, (2, 5, 7), 2, 1, True),
    Layout("e", LSTM, (2, 12, 5), 8, 1),
    Layout("f", LINEAR, (2, 3, 5, 7), 6, 2, True),
]
SHAPES = [(6, 2, 3, 3), (8, 3, 3, 3), (7, 5), (14, 5), (24, 5), (42, 5)]


@pytest.mark.parametrize(("layout", "shape"), zip(LAYOUTS, SHAPES, strict=True))
def test_there_and_back(layout: Layout, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(layout.shape), dtype="float32").reshape(layout.shape)
    canonical = layout.canonical(array)
    assert canonical.shape == shape == layout.canonical_shape
    assert (layout.restored(canonical) == array).all()


def test_outputs_lie_first() -> None:
    array = np.arange(35.0).reshape(5, 7)
    assert (LAYOUTS[2].canonical(array) == array.T).all()
    grouped = np.arange(6 * 4 * 9.0).reshape(6, 4, 3, 3)
    # Output 1 of the second group reads inputs 3 to 5.
    assert (LAYOUTS[1].canonical(grouped)[5] == grouped[3:, 1]).all()
