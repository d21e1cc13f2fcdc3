"""Transposed convolutions of sequences: ONNX Runtime's numbers, and one ordinary convolution."""

from __future__ import annotations

import pytest

from tests.frontend.onnx_nodes import Case, by_onnxruntime, check, floats, model_of
from tests.relay_modules import operator_names
from tvm_fusionx.frontend import from_onnx

CASES = [
    # Channels, outputs of a group, window, attributes.
    (4, 3, 5, {"strides": [2]}),
    (4, 3, 4, {"strides": [4]}),
    (4, 2, 3, {"strides": [1], "pads": [1, 1]}),
    (4, 2, 7, {"strides": [3], "pads": [2, 1], "output_padding": [2]}),
    (4, 2, 2, {"strides": [4], "output_padding": [3]}),
    (4, 1, 16, {"strides": [8], "pads": [3, 0]}),
    (6, 2, 3, {"strides": [2], "group": 3}),
    (4, 2, 3, {"strides": [2], "dilations": [2]}),
    (4, 2, 3, {"strides": [2], "auto_pad": "SAME_UPPER"}),
]


def _case(channels: int, outputs: int, window: int, attributes: dict[str, object]) -> Case:
    inputs = [floats(2, channels, 9), floats(channels, outputs, window, seed=1)]
    groups = attributes.get("group", 1)
    assert isinstance(groups, int)
    inputs.append(floats(outputs * groups, seed=2))
    return Case("ConvTranspose", inputs, attributes, known=(1, 2))


@pytest.mark.slow
def test_numbers() -> None:
    pytest.importorskip("onnxruntime")
    check([by_onnxruntime(_case(*row)) for row in CASES])


@pytest.mark.parametrize("row", CASES[:3], ids=str)
def test_it_is_one_convolution(row: tuple[int, int, int, dict[str, object]]) -> None:
    mod, _ = from_onnx(model_of([_case(*row)])[0])
    names = operator_names(mod["main"].body)
    assert names.count("nn.conv2d") == 1
    assert not any("transpose" in name and name != "transpose" for name in names)


def test_weights_that_are_given_late_are_spread_by_the_operator() -> None:
    case = Case("ConvTranspose", [floats(1, 4, 9), floats(4, 2, 3)], {"strides": [2]})
    mod, _ = from_onnx(model_of([case])[0])
    assert "nn.conv2d_transpose" in operator_names(mod["main"].body)
