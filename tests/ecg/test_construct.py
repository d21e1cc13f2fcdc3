from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import graph, var
from tvm_fusionx.ecg import Graph, TensorType
from tvm_fusionx.ecg.construct import dense, reshape, slice_axis, transpose, transpose_axes
from tvm_fusionx.ecg.relay_types import infer_types


@pytest.fixture
def empty() -> Graph:
    return Graph(infer_types)


def test_what_changes_nothing_adds_nothing(empty: Graph) -> None:
    x = empty.input("x", TensorType((4, 8), "float32"))
    assert reshape(empty, x, (4, 8)) is x
    assert transpose(empty, x, (0, 1)) is x
    assert slice_axis(empty, x, 1, 0, 8) is x


def test_calls_have_the_types_that_relay_gives_them(empty: Graph) -> None:
    x = empty.input("x", TensorType((4, 8), "float32"))
    w = empty.input("w", TensorType((6, 8), "float32"))
    assert reshape(empty, x, (2, 16)).shape == (2, 16)
    assert transpose(empty, x, (1, 0)).shape == (8, 4)
    assert slice_axis(empty, x, 1, 3, 5).shape == (4, 2)
    assert dense(empty, x, w).shape == (4, 6)


def test_names_are_kept(empty: Graph) -> None:
    x = empty.input("x", TensorType((4, 8), "float32"))
    assert reshape(empty, x, (32,), "flatten").node.name == "flatten"


@pytest.mark.parametrize(
    ("axes", "expected"), [(None, (2, 1, 0)), ([0, 2, 1], (0, 2, 1)), ([-1, 0, -2], (2, 0, 1))]
)
def test_transpose_axes_are_spelled_out(axes: list[int] | None, expected: tuple[int, ...]) -> None:
    (node,) = graph(relay.transpose(var("x", 2, 3, 4), axes)).calls()
    assert transpose_axes(node) == expected
