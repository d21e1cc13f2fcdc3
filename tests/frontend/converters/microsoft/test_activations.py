from __future__ import annotations

import pytest

from tests.frontend.converters.microsoft.by_onnx_runtime import Call, check, floats, translate
from tvm_fusionx.errors import UnsupportedOperatorError

pytestmark = pytest.mark.slow

X, BIAS = floats(2, 5, 8) * 3, floats(8, seed=1)


def test_gelus_agree_with_onnx_runtime() -> None:
    check(
        [
            Call("Gelu", [X]),
            Call("BiasGelu", [X, BIAS]),
            Call("BiasGelu", [X, BIAS], known=[1]),
            Call("FastGelu", [X]),
            Call("FastGelu", [X, BIAS]),
            Call("QuickGelu", [X]),
            Call("QuickGelu", [X], {"alpha": 1.0}),
            Call("QuickGelu", [X], {"alpha": -0.5}),
            Call("ScaledSiLU", [X], {"alpha": 2.0}),
        ]
    )


ACTIVATIONS = {
    "Clip": [0.0, 6.0],
    "HardSigmoid": [0.3, 0.4],
    "LeakyRelu": [0.2],
    "Relu": [],
    "Sigmoid": [],
    "Tanh": [],
}


def test_each_activation_is_fused_into_a_convolution() -> None:
    x, weights = floats(1, 2, 6, 6), floats(3, 2, 3, 3, seed=1)
    check(
        [
            Call(
                "FusedConv",
                [x, weights],
                {"activation": name} | ({"activation_params": numbers} if numbers else {}),
            )
            for name, numbers in ACTIVATIONS.items()
        ]
    )


def test_an_unknown_activation_is_refused_by_name() -> None:
    inputs = [floats(1, 2, 6, 6), floats(3, 2, 3, 3)]
    with pytest.raises(UnsupportedOperatorError, match=r"activation among .*found 'Swirl'"):
        translate(Call("FusedConv", inputs, {"activation": "Swirl"}))
    attributes = {"activation": "LeakyRelu", "activation_params": [1.0, 2.0]}
    with pytest.raises(UnsupportedOperatorError, match="1 parameters of LeakyRelu"):
        translate(Call("FusedConv", inputs, attributes))
