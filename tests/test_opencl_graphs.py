"""Whole nets compiled for OpenCL: small ones, and random valid ONNX graphs."""

from __future__ import annotations

import pytest
import tvm
from tvm import relay

pytest.importorskip("onnxruntime")

import tvm_fusionx as fx
from tests.opencl_device import require_opencl
from tests.random_graphs import generate
from tests.random_graphs.check import OK, REFUSED, check, compile_for_opencl
from tests.relay_modules import (
    REASSOCIATING,
    assert_close,
    const,
    inputs_of,
    module,
    run_plain,
    var,
)
from tests.sampled import few_fast
from tvm_fusionx.report.bench.plain_tvm import run_once

SEEDS = range(40)
SIZE = 4  # nodes a graph


@pytest.fixture(autouse=True)
def _device() -> None:
    require_opencl()


@pytest.mark.parametrize("seed", few_fast(SEEDS, 2))
def test_small_graphs_agree_with_onnxruntime(seed: int) -> None:
    random_model = generate(seed, SIZE)
    outcome = check(
        compile_for_opencl, random_model.model, random_model.inputs, random_model.outputs
    )
    assert outcome.status in (OK, REFUSED), f"{dict(random_model.operators)}: {outcome}"


def _image_net() -> relay.Expr:
    """Return a net of every kind of layer: convolutions, gates, pools, a norm, attention."""
    x = relay.nn.conv2d(var("x", 1, 3, 18, 18), const(8, 3, 3, 3), strides=(2, 2), padding=(1, 1))
    x = relay.nn.relu(relay.nn.bias_add(x, const(8)))
    y = relay.nn.conv2d(x, const(8, 1, 3, 3, seed=1), groups=8, padding=(1, 1))
    gate = relay.sigmoid(relay.nn.conv2d(relay.nn.global_avg_pool2d(y), const(8, 8, 1, 1, seed=2)))
    x = relay.nn.conv2d(y * gate, const(8, 8, 1, 1, seed=3)) + x
    x = relay.nn.max_pool2d(x, (3, 3), strides=(2, 2), padding=(1, 1, 1, 1))
    tokens = relay.transpose(relay.reshape(x, (1, 8, 25)), (0, 2, 1))
    deviation = tokens - relay.mean(tokens, axis=-1, keepdims=True)
    variance = relay.mean(deviation * deviation, axis=-1, keepdims=True)
    tokens = deviation / relay.sqrt(variance + relay.const(1e-5))
    scores = relay.nn.softmax(relay.nn.batch_matmul(tokens, tokens))
    mixed = relay.nn.batch_matmul(scores, tokens, transpose_b=False)
    return relay.nn.dense(relay.reshape(mixed, (25, 8)), const(10, 8, seed=4))


@pytest.mark.slow
@pytest.mark.parametrize(
    "target", ["opencl", pytest.param("opencl -device=adreno", marks=pytest.mark.slow)]
)
def test_a_small_net_agrees_with_plain_tvm(target: str) -> None:
    mod = module(_image_net())
    inputs = inputs_of(mod)
    library = fx.build(mod, target)
    found = run_once(library, inputs, tvm.opencl(0))
    assert_close(found, run_plain(mod, inputs), REASSOCIATING)
