from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats, ints

# Compiling its cases takes seconds.
pytestmark = pytest.mark.slow

X = floats(4, 5, 3)
INDEX = np.array([[0, -1], [3, -4]], "int64")


@pytest.mark.parametrize("known", [(), (1,)], ids=["computed", "known"])
def test_negative_indices_count_from_the_end(known: tuple[int, ...]) -> None:
    along = np.array([[[0, -1, 2]]] * 4, "int64")
    check(
        [
            Case("Gather", [X, INDEX], known=known),
            Case("Gather", [X, INDEX], {"axis": 1}, known=known),
            Case("Gather", [X, ints(-2)[0]], {"axis": 1}, known=known),
            Case("GatherElements", [X, along], {"axis": 1}, known=known),
            Case("GatherND", [X, np.array([[0, -1], [-1, 2]], "int64")], known=known),
            Case(
                "ScatterElements",
                [X, along, floats(4, 1, 3, seed=1)],
                {"axis": 1},
                known=known,
            ),
            Case(
                "ScatterND",
                [X, np.array([[0, -1], [-1, 2]], "int64"), floats(2, 3, seed=1)],
                known=known,
            ),
        ]
    )


@pytest.mark.parametrize("reduction", ["add", "mul", "min", "max"])
def test_scattered_values_combine(reduction: str) -> None:
    index = np.array([[[0, 1, 2]], [[1, 1, 1]], [[0, 0, 0]], [[4, 3, 2]]], "int64")
    nd_index = np.array([[0, 1], [2, 3]], "int64")
    attributes = {"axis": 1, "reduction": reduction}
    cases = [
        Case("ScatterElements", [X, index, floats(4, 1, 3, seed=1)], attributes),
        Case("ScatterND", [X, nd_index, floats(2, 3, seed=1)], {"reduction": reduction}),
    ]
    check([by_onnxruntime(case, opset=18) for case in cases], opset=18)


def test_operators_of_classical_learning() -> None:
    check(
        [
            Case("Binarizer", [X], {"threshold": 0.2}, domain="ai.onnx.ml"),
            Case("ArrayFeatureExtractor", [X[0], ints(2, 0)], domain="ai.onnx.ml"),
        ]
    )
