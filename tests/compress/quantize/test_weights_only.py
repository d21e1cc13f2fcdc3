from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

import tvm_fusionx as fx
from tests.compress.quantize.small_networks import operators, residual
from tests.quantized_models import Layers
from tvm_fusionx.compress.quantize.runner import runner
from tvm_fusionx.compress.quantize.weights_only import FORMS, blocked, quantize_weights
from tvm_fusionx.errors import InputError, ModelError
from tvm_fusionx.report.bench.plain_tvm import run_once


def _model(inputs: int = 80) -> Any:
    layers = Layers(2, inputs)
    hidden = layers.add("Relu", layers.add("MatMul", "x", layers.weights(inputs, 48)))
    turned = layers.add("Gemm", hidden, layers.weights(24, 48), layers.weights(24), transB=1)
    return layers.model(turned)


def _outputs(model: Any, inputs: int = 80) -> np.ndarray:
    x = np.random.default_rng(3).normal(size=(2, inputs)).astype("float32")
    result: np.ndarray = runner(model, "onnxruntime")({"x": x})[0]
    return result


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("inputs", [64, 70])
def test_every_weight_is_within_half_a_step(bits: int, inputs: int) -> None:
    weights = np.random.default_rng(0).normal(size=(inputs, 5)).astype("float32")
    weights[:32, 2] = 0
    integers, scales = blocked(weights, bits, 32)
    assert scales.shape == (-(-inputs // 32), 5)
    assert integers.min() == -(2 ** (bits - 1))
    each = np.abs(scales).repeat(32, axis=0)[:inputs]
    error = np.abs(integers * scales.repeat(32, axis=0)[:inputs] - weights)
    # The largest of the other sign has one integer fewer.
    assert (error <= each * 1.001).all()
    assert (error <= each * 0.501).mean() > 0.95


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("bits", "error"), [(4, 0.3), (8, 0.02)])
def test_both_forms_compute_nearly_the_same(form: str, bits: int, error: float) -> None:
    model = _model()
    exact = _outputs(model)
    changed = quantize_weights(model, bits, block=32, form=form)
    found = _outputs(changed)
    assert 0 < np.abs(found - exact).max() <= error * np.abs(exact).max()
    onnx.checker.check_model(changed)
    # The product with a bias of its own form stays in the second one.
    assert operators(changed).count(form) == 1 + (form == "DequantizeLinear")


def test_both_forms_have_the_same_weights() -> None:
    layers = Layers(2, 70)
    model = layers.model(layers.add("MatMul", "x", layers.weights(70, 48)))
    for bits in (4, 8):
        first, second = (
            _outputs(quantize_weights(model, bits, block=64, form=form), 70) for form in FORMS
        )
        assert np.abs(first - second).max() <= 1e-5 * np.abs(first).max()


def test_what_is_written_is_small() -> None:
    sizes = [quantize_weights(_model(), bits).ByteSize() for bits in (4, 8)]
    assert sizes[0] < sizes[1] < _model().ByteSize() / 2


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_we_read_what_was_written(form: str) -> None:
    changed = quantize_weights(_model(), 4, block=32, form=form)
    mod, params = fx.from_onnx(changed)
    x = np.random.default_rng(3).normal(size=(2, 80)).astype("float32")
    (found,) = run_once(fx.build(mod, "llvm -mcpu=native", params), {"x": x})
    expected = _outputs(changed)
    assert np.abs(found - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bits": 3}, "bits: expected one of 4, 8"),
        ({"block": 48}, "block: expected one of 32, 64, 128"),
        ({"form": "Packed"}, "form: expected one of DequantizeLinear, MatMulNBits"),
    ],
)
def test_other_choices_are_told(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as caught:
        quantize_weights(_model(), **options)
    assert words in str(caught.value)


def test_a_model_without_products_is_told() -> None:
    layers = Layers(1, 8, 8, 8)
    with pytest.raises(ModelError, match=r"fx\.quantize quantises convolutions"):
        quantize_weights(layers.model(layers.conv("x", 8, 8, 3)))
    with pytest.raises(ModelError):
        quantize_weights(residual(), form="MatMulNBits")
