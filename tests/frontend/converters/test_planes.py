from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats
from tvm_fusionx.frontend.converters.planes import can_be_flat
from tvm_fusionx.frontend.converters.windows import Windows

X = floats(1, 4, 5, 6, 7)


def windows(kernel: tuple[int, ...]) -> Windows:
    ones, zeros = (1,) * len(kernel), (0,) * len(kernel)
    return Windows((8,) * len(kernel), kernel, ones, ones, zeros, zeros)


@pytest.mark.parametrize(
    ("kernel", "groups", "expected"),
    [
        ((3, 3, 3), 1, True),
        ((1, 1, 1), 1, True),
        ((3, 3, 3), 4, False),
        ((3, 3), 1, False),
        ((3,), 1, True),
        ((3,), 4, True),
    ],
)
def test_sequences_and_ungrouped_volumes_are_flattened(
    kernel: tuple[int, ...], groups: int, expected: bool
) -> None:
    assert can_be_flat(windows(kernel), groups) is expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "attributes"),
    [
        ((1, 1, 1), {}),
        ((3, 1, 1), {"pads": [1, 0, 0, 1, 0, 0]}),
        ((3, 1, 1), {"strides": [2, 1, 1], "pads": [2, 0, 0, 1, 0, 0]}),
        ((2, 1, 1), {"dilations": [2, 1, 1]}),
        ((1, 3, 3), {"pads": [0, 1, 1, 0, 1, 1]}),
        ((1, 1, 1), {"strides": [2, 2, 2]}),
        ((3, 3, 3), {"pads": [1, 1, 1, 1, 1, 1]}),
        ((3, 2, 3), {"strides": [2, 1, 2], "pads": [1, 0, 1, 2, 1, 0]}),
        ((2, 2, 2), {"dilations": [2, 2, 1], "auto_pad": "SAME_UPPER"}),
    ],
    ids=str,
)
def test_volumes_agree_with_the_reference(
    kernel: tuple[int, ...], attributes: dict[str, Any]
) -> None:
    inputs = [X, floats(3, 4, *kernel, seed=1), floats(3, seed=2)]
    check([Case("Conv", inputs, attributes, known=(1, 2))])


@pytest.mark.slow
def test_a_batch_of_volumes_agrees_with_the_reference() -> None:
    weights = floats(3, 4, 3, 3, 3, seed=1)
    x = np.concatenate([X, floats(1, 4, 5, 6, 7, seed=3)])
    check([Case("Conv", [x, weights], {"pads": [1] * 6}, known=(1,))])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channels", "attributes"),
    [
        (4, {"pads": [1, 1]}),
        (4, {"strides": [2], "pads": [2, 0]}),
        (4, {"dilations": [2], "pads": [3, 1]}),
        (2, {"group": 2}),
        (1, {"group": 4, "pads": [1, 1]}),
    ],
    ids=str,
)
def test_sequences_agree_with_the_reference(channels: int, attributes: dict[str, Any]) -> None:
    inputs = [floats(2, 4, 9), floats(8, channels, 3, seed=1), floats(8, seed=2)]
    check([by_onnxruntime(Case("Conv", inputs, attributes, known=(1, 2)))])
