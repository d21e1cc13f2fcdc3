from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, check, floats, ints

X = floats(3, 4)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
def test_pads_of_every_mode(mode: str) -> None:
    check(
        [
            Case("Pad", [X, ints(1, 0, 2, 3)], {"mode": mode}, known=[1]),
            Case("Pad", [X, ints(2, 1), None, ints(-1)], {"mode": mode}, known=[1, 3]),
        ]
    )


def test_the_value_may_be_known_or_computed() -> None:
    value = np.float32(7.0)
    check(
        [
            Case("Pad", [X, ints(0, 1, 0, 1), value], known=[1, 2]),
            Case("Pad", [X, ints(0, 1, 0, 1), value], known=[1]),
        ]
    )


def test_negative_pads_cut() -> None:
    cut = X[1:, :-1]
    check([Case("Pad", [X, ints(-1, 0, 0, -1)], known=[1], expected=[cut])])
