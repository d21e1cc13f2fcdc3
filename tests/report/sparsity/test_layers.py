"""What is told of each layer: its structure, estimates, and a reason where it stays dense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import relay

from tests.relay_modules import module, var
from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.report.sparsity.layers import layers_of

AVX512 = "llvm -mcpu=znver4 -num-cores=2"


def _two(first: float, second: float) -> Any:
    hidden = relay.nn.relu(
        relay.nn.dense(var("x", 32, 256), relay.const(pruned(128, 256, 16, first)))
    )
    return module(relay.nn.dense(hidden, relay.const(pruned(64, 128, 16, second, seed=1))))


def test_one_is_sparse_and_one_is_not() -> None:
    layers = [layer for layer, _ in layers_of(_two(0.125, 1.0), AVX512)]
    assert [layer.is_sparse for layer in layers] == [True, False]
    first, second = layers
    assert (first.channels, first.length, first.places) == (128, 256, 32)
    assert first.density == pytest.approx(0.125, abs=0.03) == first.effective_density
    assert first.gain is not None
    assert first.gain > 2
    assert first.break_even_density is not None
    assert first.break_even_density > 0.5
    assert first.sparse_bytes is not None
    assert first.csr_bytes is not None
    assert first.dense_bytes is not None
    assert first.sparse_bytes < first.csr_bytes < first.dense_bytes
    assert second.reason == "0% of its weights are zero, fewer than 25%"
    assert "density" not in second.as_json()


def test_a_dry_run_prunes_before_it_judges() -> None:
    found = [layer for layer, _ in layers_of(_two(1.0, 1.0), AVX512, rate=8)]
    assert all(layer.is_sparse for layer in found)
    assert [layer.density for layer in found] == [pytest.approx(0.125)] * 2
    mild = [layer for layer, _ in layers_of(_two(1.0, 1.0), AVX512, rate=1)]
    assert [layer.is_sparse for layer in mild] == [False, False]
    assert all(layer.reason and "it would gain" in layer.reason for layer in mild)


def test_windows_are_matrices_too() -> None:
    weight = np.zeros((32, 16, 3, 3), "float32")
    body = relay.nn.conv2d(
        var("x", 1, 16, 8, 8), relay.const(weight), padding=(1, 1), kernel_size=(3, 3), channels=32
    )
    ((layer, _),) = layers_of(module(body), AVX512)
    assert (layer.channels, layer.length, layer.places) == (32, 144, 64)
    assert layer.is_sparse
    assert layer.density == 0


def test_opencl_is_judged_by_what_its_kernels_do() -> None:
    def body(rows: int, density: float) -> Any:
        weight = relay.const(pruned(512, 512, 8, density))
        return module(relay.nn.dense(var("x", rows, 512), weight))

    ((large, _),) = layers_of(body(512, 0.125), "opencl")
    assert large.is_sparse
    assert large.group == 4
    assert large.gain is not None
    assert large.gain > 3
    assert large.break_even_density is not None
    assert large.break_even_density > 0.5
    # Starting the kernel that puts the data in planes takes longer than this product.
    ((small, _),) = layers_of(body(16, 0.125), "opencl")
    assert small.reason is not None
    assert small.reason.startswith("it would gain 0.")
