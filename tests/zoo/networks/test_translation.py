"""Pictures to pictures: published counts, and right against ONNX Runtime on small pictures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.contrib import graph_executor

import tvm_fusionx as fx
from tests.relay_modules import TARGET
from tests.zoo.networks.published import count, printed
from tvm_fusionx.zoo.recipe import RELU_GAIN, WEIGHT_SEED
from tvm_fusionx.zoo.torch_export import export_module
from tvm_fusionx.zoo.weights import draw_weights

pytest.importorskip("torch")
translation = pytest.importorskip("tvm_fusionx.zoo.networks.translation")


def test_cyclegan_counts_are_the_published_ones():
    counted = count(translation.cyclegan_generator, (1, 3, 256, 256))
    # The authors' program prints 11.378M. 56.8G is in table 1 of Li et al., GAN Compression (CVPR
    # 2020); it has the two transposed convolutions at each pixel of their outputs, four times what
    # they multiply.
    transposed = 64 * 64 * 256 * 128 * 9 + 128 * 128 * 128 * 64 * 9
    assert counted.parameters == printed("11.378M")
    assert counted.multiply_adds + 3 * transposed == printed("56.8G")
    assert counted.outputs == [(1, 3, 256, 256)]


def test_style_transfer_counts_are_those_of_torchs_example():
    counted = count(translation.fast_style_transfer, (1, 3, 256, 256))
    assert counted.parameters == 1_679_235
    assert counted.outputs == [(1, 3, 256, 256)]


def test_wdsr_counts_are_the_sum_over_its_layers():
    # Yu et al. print counts of no network of this width. Kernels and biases, head to skip:
    block = (32 * 192 + 192) + (192 * 25 + 25) + (25 * 32 * 9 + 32)
    outputs = 3 * 4 * 4
    ends = (3 * 32 * 9 + 32) + (32 * outputs * 9 + outputs) + (3 * outputs * 25 + outputs)
    counted = count(translation.WdsrB, (1, 3, 120, 160))
    assert counted.parameters == 16 * block + ends
    kernels = 16 * (32 * 192 + 192 * 25 + 25 * 32 * 9)
    kernels += 3 * 32 * 9 + 32 * outputs * 9 + 3 * outputs * 25
    assert counted.multiply_adds == kernels * 120 * 160
    assert counted.outputs == [(1, 3, 480, 640)]


@pytest.mark.slow
def test_wdsr_is_right_against_onnx_runtime(tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    picture = np.random.default_rng(5).random((1, 3, 16, 24), np.float32)
    path = tmp_path / "model.onnx"
    export_module(
        lambda: draw_weights(translation.WdsrB(), WEIGHT_SEED, RELU_GAIN),
        (picture,),
        path,
        ("image",),
        ("picture",),
        "torchscript",
    )
    (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, {"image": picture})
    mod, params = fx.from_onnx(path)
    library = fx.build(mod, TARGET, params=params)
    executor = graph_executor.GraphModule(library["default"](tvm.cpu()))
    executor.run(image=picture)
    found = executor.get_output(0).numpy()
    assert np.abs(found - wanted).max() <= 1e-5 * np.abs(wanted).max()
