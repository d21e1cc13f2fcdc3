"""The layers of a model as the compiler sees them, and the tensors that they multiply."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reuse_models import CHOICES, network, weights
from tvm_fusionx.compress.quantize.prepare import prepared_graph
from tvm_fusionx.compress.similar.layers import Layer, find_layers
from tvm_fusionx.processors.cpu import describe_cpu
from tvm_fusionx.schedules import resolve_target

TARGET = resolve_target("llvm -mcpu=znver4 -num-cores=2")
CPU = describe_cpu(TARGET)


@pytest.fixture(scope="module")
def layers() -> list[Layer]:
    graph = prepared_graph(network())
    return find_layers(graph, {"x": (2, 3, 12, 12)}, TARGET, CPU)


def test_all_products_are_found_in_order(layers: list[Layer]) -> None:
    assert [layer.name for layer in layers] == ["conv1", "conv2", "fc", "fc2"]
    assert layers[0].tensor == "x"
    assert {layer.reason for layer in layers} == {None}
    assert [layer.is_window for layer in layers] == [True, True, False, False]
    assert [layer.run_and_depth for layer in layers] == [(9, 3), (48, 16), (32, 32), (20, 20)]


def test_weights_are_rows_of_windows(layers: list[Layer]) -> None:
    held = weights()
    expected = held["w2"].transpose(2, 3, 1, 0).reshape(-1, 32)
    np.testing.assert_array_equal(layers[1].weights, expected)
    np.testing.assert_array_equal(layers[2].weights, held["w3"])


def test_segments_are_those_of_the_layer(layers: list[Layer]) -> None:
    for layer in layers[:3]:
        choice = CHOICES[layer.name]
        told = [
            (segment.column, segment.column + segment.length)
            for segment in layer.reused(choice).segments
        ]
        assert layer.columns_in(choice.length) == told


def test_rows_of_a_matrix_are_pixels(layers: list[Layer]) -> None:
    data = np.arange(12, dtype="float32").reshape(2, 2, 3)
    image = layers[2].as_image(data)
    assert image.shape == (1, 3, 4, 1)
    np.testing.assert_array_equal(image[0, :, 3, 0], data[1, 1])
    assert layers[0].as_image(data) is data
    assert layers[1].dense_cycles(CPU) > layers[2].dense_cycles(CPU) > 0
