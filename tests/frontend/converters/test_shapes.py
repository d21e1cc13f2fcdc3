from __future__ import annotations

import numpy as np
import pytest
import tvm

from tests.frontend.onnx_nodes import Case, check, floats, ints, model_of
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx

X = floats(2, 3, 4)


def test_shape_changes_agree_with_the_reference() -> None:
    check(
        [
            Case("Reshape", [X, ints(0, -1)], known=[1]),
            Case("Flatten", [X], {"axis": -1}),
            Case("Squeeze", [floats(2, 1, 3, 1), ints(-1)], known=[1]),
            Case("Squeeze", [floats(2, 1, 3, 1)]),
            Case("Unsqueeze", [X, ints(0, -1)], known=[1]),
            Case("Transpose", [X]),
            Case("Transpose", [X], {"perm": [1, 0, 2]}),
            Case("Expand", [floats(3, 1), ints(2, 1, 5)], known=[1]),
            Case("Tile", [X, ints(1, 2, 1)], known=[1]),
            Case("Concat", [X, floats(2, 1, 4, seed=1)], {"axis": -2}),
            Case("Trilu", [X, ints(1)[0]], {"upper": 1}, known=[1]),
            Case("Trilu", [X, ints(-1)[0]], {"upper": 0}, known=[1]),
            Case("DepthToSpace", [floats(1, 8, 2, 3)], {"blocksize": 2, "mode": "CRD"}),
            Case("DepthToSpace", [floats(1, 8, 2, 3)], {"blocksize": 2}),
            Case("SpaceToDepth", [floats(1, 2, 4, 6)], {"blocksize": 2}),
        ]
    )


def test_what_types_tell_is_a_constant() -> None:
    check(
        [
            Case("Shape", [X], {"start": 1}),
            Case("Size", [X]),
            Case("EyeLike", [floats(3, 4)], {"k": 1}),
            Case("ConstantOfShape", [ints(2, 3)], known=[0]),
            Case("Range", [ints(1)[0], ints(9)[0], ints(3)[0]], known=[0, 1, 2]),
        ]
    )


def test_a_transpose_of_a_transpose_is_one() -> None:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [
            helper.make_node("Transpose", ["x"], ["t"], perm=[2, 0, 1]),
            helper.make_node("Transpose", ["t"], ["y"], perm=[2, 1, 0]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
        [helper.make_empty_tensor_value_info("y")],
    )
    mod, _ = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    body = mod["main"].body
    assert body.op.name == "transpose"
    assert isinstance(body.args[0], tvm.relay.Var)
    assert [int(axis) for axis in body.attrs.axes] == [1, 0, 2]


def test_a_zero_is_kept_where_allowed() -> None:
    empty = np.zeros((0, 3), "float32")
    check([Case("Reshape", [empty, ints(3, 0)], {"allowzero": 1}, known=[1])])


def test_a_wrong_number_of_elements_is_refused() -> None:
    model, _ = model_of([Case("Reshape", [X, ints(5, 5)], known=[1])])
    with pytest.raises(UnsupportedOperatorError, match="24 elements"):
        from_onnx(model)


def test_space_to_depth_in_both_orders() -> None:
    x = floats(2, 3, 4, 6)
    check([Case("SpaceToDepth", [x], {"blocksize": 2, "mode": m}) for m in ("DCR", "CRD")], 28)


def test_halves_are_counted_in_single() -> None:
    start, limit, delta = (np.array(v, "float16") for v in (2040, 2060, 1))
    expected = np.arange(2040, 2060).astype("float16")
    case = Case("Range", [start, limit, delta], known=[0, 1, 2], expected=[expected])
    check([case, Case("Relu", [X])], 27)
