from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto
from tvm import relay

from tvm_fusionx.frontend.values import DynamicShapeError, Tensor, constant


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float32", "float64"])
def test_a_constant_keeps_type_and_shape(dtype: str) -> None:
    for array in (np.zeros((2, 3), dtype).T, np.array(1, dtype)):
        made = constant(array).data
        assert (made.dtype, made.shape) == (dtype, array.shape)
        np.testing.assert_array_equal(made.numpy(), array)


def test_a_tensor_of_an_expression_has_its_inferred_type() -> None:
    call = relay.nn.relu(relay.var("x", shape=(2, 3)))
    relay.transform.InferTypeLocal(call)
    tensor = Tensor.from_expr(call)
    assert (tensor.shape, tensor.rank, tensor.dtype) == ((2, 3), 2, "float32")
    assert tensor.element == TensorProto.FLOAT
    assert tensor.array is None


def test_an_empty_tensor_is_known() -> None:
    call = relay.strided_slice(relay.var("x", shape=(2, 3)), [1], [1])
    relay.transform.InferTypeLocal(call)
    tensor = Tensor.from_expr(call)
    assert tensor.array is not None
    assert tensor.array.shape == (0, 3)


def test_an_extent_that_depends_on_data_is_open_and_no_number() -> None:
    call = relay.argwhere(relay.var("x", shape=(2, 3)))
    relay.transform.InferTypeLocal(call)
    tensor = Tensor.from_expr(call)
    assert tensor.is_open
    assert tensor.dims == (None, 2)
    assert tensor.rank == 2
    assert tensor.shape_text == "[?, 2]"
    assert str(tensor.relay_type.shape[1]) == "2"
    with pytest.raises(DynamicShapeError, match=r"\?"):
        tensor.shape  # noqa: B018
