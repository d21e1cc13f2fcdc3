from __future__ import annotations

import importlib
import importlib.util
import sys

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto

from tests.relay_modules import var
from tvm_fusionx._tvm.onnx_importer import NAME, convert_onnx_node, onnx_mapping


def test_the_module_is_there_in_the_scope_only() -> None:
    before = sys.modules.get(NAME)
    with onnx_mapping(), onnx_mapping():
        table = importlib.import_module(NAME).TENSOR_TYPE_TO_NP_TYPE
        assert table[TensorProto.FLOAT] == np.dtype("float32")
        assert table[TensorProto.INT64] == np.dtype("int64")
        assert table[TensorProto.BFLOAT16] == np.dtype("float32")
    if before is None and importlib.util.find_spec(NAME) is None:
        assert NAME not in sys.modules


def test_the_module_goes_after_an_error_too() -> None:
    if importlib.util.find_spec(NAME) is not None:
        pytest.skip("this onnx has the module itself")
    with pytest.raises(ZeroDivisionError), onnx_mapping():
        raise ZeroDivisionError
    assert NAME not in sys.modules


def test_tvm_reads_element_types_in_the_scope() -> None:
    from tvm.relay.frontend.onnx import get_type

    with onnx_mapping():
        assert get_type(TensorProto.FLOAT16) == "float16"
        assert get_type(TensorProto.BFLOAT16) == "bfloat16"


x = var("x", 4, 6)


def test_one_onnx_node_is_converted() -> None:
    proto = onnx.helper.make_node("LeakyRelu", ["x"], ["y"], name="act", alpha=0.25)
    (result,) = convert_onnx_node(proto, [x], 13)
    assert result.op.name == "nn.leaky_relu"
    assert result.attrs.alpha == 0.25


def test_a_node_with_several_results_gives_a_list() -> None:
    proto = onnx.helper.make_node("Split", ["x"], ["a", "b"], name="cut", axis=1)
    assert len(convert_onnx_node(proto, [x], 11)) == 2


def test_the_opset_chooses_the_converter() -> None:
    proto = onnx.helper.make_node("Softmax", ["x"], ["y"], name="prob")
    old, new = (convert_onnx_node(proto, [var("x", 2, 3, 4)], opset)[0] for opset in (11, 13))
    assert not tvm.ir.structural_equal(old, new, map_free_vars=True)
