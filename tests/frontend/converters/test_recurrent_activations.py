"""Functions of recurrent layers: their numbers, those of ONNX where none are given."""

from __future__ import annotations

from typing import Any

import pytest

from tests.frontend.converters.test_recurrent import model_of, operands
from tvm_fusionx.ecg.block_calls import post_order
from tvm_fusionx.errors import UnsupportedOperatorError
from tvm_fusionx.frontend import from_onnx
from tvm_fusionx.operators.recurrent_layer import Function, Layer
from tvm_fusionx.operators.recurrent_operator import RECURRENT, layer_of


def layer_in(model: Any) -> Layer | None:
    """Return the layer that a model of one node becomes; None where it is unrolled."""
    body = from_onnx(model)[0]["main"].body
    calls = [each for each in post_order(body) if getattr(each, "op", None) is not None]
    found = [each for each in calls if getattr(each.op, "name", "") == RECURRENT]
    return layer_of(found[0].attrs) if found else None


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({}, Function("Tanh")),
        ({"activations": ["HardSigmoid"]}, Function("HardSigmoid", 0.2, 0.5)),
        (
            {"activations": ["HardSigmoid"], "activation_alpha": [0.5], "activation_beta": [0.25]},
            Function("HardSigmoid", 0.5, 0.25),
        ),
        ({"activations": ["Affine"], "activation_alpha": [3.0]}, Function("Affine", 3.0, 0.0)),
    ],
)
def test_numbers_of_functions(attributes: dict[str, Any], expected: Function) -> None:
    layer = layer_in(model_of("RNN", operands("RNN", 1)[:3], **attributes))
    assert layer is not None
    assert layer.functions == (expected,)


def test_too_few_functions_are_refused() -> None:
    with pytest.raises(UnsupportedOperatorError, match="3 activations"):
        from_onnx(model_of("LSTM", operands("LSTM", 1)[:3], activations=["Tanh"]))
