"""Each kind of block on the OpenCL device: which template serves it, and its numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tvm
from tvm import relay

from tests.relay_modules import var
from tests.sampled import few_fast
from tests.schedules.gpu.gpu_blocks import assert_runs
from tvm_fusionx.schedules.gpu.templates import GPU_TEMPLATES


def _norm() -> relay.Expr:
    x = var("x", 7, 384) + var("r", 7, 384)
    deviation = x - relay.mean(x, axis=-1, keepdims=True)
    variance = relay.mean(deviation * deviation, axis=-1, keepdims=True)
    scaled = deviation / relay.sqrt(variance + relay.const(1e-5))
    return scaled * var("g", 384) + var("b", 384)


def _image(channels: int, size: int) -> relay.Var:
    return var("x", 1, channels, size, size)


KINDS: dict[str, tuple[Callable[[], relay.Expr], str]] = {
    "element by element": (
        lambda: relay.erf(var("x", 16, 64)) * relay.tanh(var("y", 64)),
        "gpu_elementwise",
    ),
    "concatenation": (
        lambda: relay.concatenate([var("x", 1, 4, 9), var("y", 1, 6, 9)], axis=1),
        "gpu_elementwise",
    ),
    "transpose": (lambda: relay.transpose(var("x", 4, 6, 8), (2, 0, 1)), "gpu_elementwise"),
    "resize": (lambda: relay.image.resize2d(_image(3, 8), (16, 16)), "gpu_elementwise"),
    "gather": (
        lambda: relay.take(var("x", 8, 12), var("i", 5, dtype="int64"), axis=0),
        "gpu_elementwise",
    ),
    "select": (
        lambda: relay.where(var("x", 6, 8) > var("y", 6, 8), var("v", 6, 8), var("z", 8)),
        "gpu_elementwise",
    ),
    "softmax": (lambda: relay.nn.softmax(var("x", 4, 32, 130) + var("m", 4, 1, 130)), "gpu_rows"),
    "softmax of short rows": (
        lambda: relay.nn.softmax(var("x", 2, 8, 12, 10), axis=2),
        "gpu_rows",
    ),
    "norm": (_norm, "gpu_rows"),
    "mean of an image": (lambda: relay.nn.global_avg_pool2d(_image(40, 14)), "gpu_rows"),
    "sum of everything": (lambda: relay.sum(var("x", 100, 30)), "gpu_rows"),
    "sum of columns": (lambda: relay.sum(var("x", 50, 300), axis=0), "gpu_tile"),
    "argmax": (lambda: relay.argmax(var("x", 20, 50), axis=1), "gpu_default"),
    "dense": (
        lambda: relay.nn.relu(relay.nn.dense(var("x", 33, 70), var("w", 50, 70))),
        "gpu_tile",
    ),
    "matrix and vector": (lambda: relay.nn.dense(var("x", 1, 512), var("w", 100, 512)), "gpu_tile"),
    "products": (
        lambda: relay.nn.batch_matmul(var("x", 3, 17, 40), var("y", 3, 19, 40)),
        "gpu_tile",
    ),
    "product written elsewhere": (
        lambda: relay.reshape(
            relay.transpose(relay.nn.dense(var("x", 24, 32), var("w", 32, 32))), (4, 8, 24)
        ),
        "gpu_tile",
    ),
    "convolution": (
        lambda: relay.nn.relu(
            relay.nn.conv2d(_image(3, 15), var("w", 10, 3, 3, 3), strides=(2, 2), padding=(1, 1))
        ),
        "gpu_tile",
    ),
    "pointwise": (lambda: relay.nn.conv2d(_image(32, 14), var("w", 24, 32, 1, 1)), "gpu_tile"),
    "depthwise": (
        lambda: relay.nn.conv2d(_image(12, 9), var("w", 12, 1, 3, 3), groups=12, padding=(1, 1)),
        "gpu_tile",
    ),
    "groups": (lambda: relay.nn.conv2d(_image(8, 9), var("w", 12, 2, 3, 3), groups=4), "gpu_tile"),
    "transposed": (
        lambda: relay.nn.conv2d_transpose(_image(8, 7), var("w", 8, 6, 4, 4), strides=(2, 2)),
        "gpu_tile",
    ),
    "channels last": (
        lambda: relay.nn.conv2d(
            var("x", 1, 12, 12, 8),
            var("w", 3, 3, 8, 16),
            data_layout="NHWC",
            kernel_layout="HWIO",
        ),
        "gpu_tile",
    ),
    "in three dimensions": (
        lambda: relay.nn.conv3d(var("x", 1, 4, 5, 6, 6), var("w", 8, 4, 3, 3, 3)),
        "gpu_tile",
    ),
    "in one dimension": (
        lambda: relay.nn.conv1d(var("x", 1, 6, 50), var("w", 8, 6, 3)),
        "gpu_tile",
    ),
    "max pool": (
        lambda: relay.nn.max_pool2d(_image(16, 20), (3, 3), strides=(2, 2), padding=(1, 1, 1, 1)),
        "gpu_tile",
    ),
    "average pool": (
        lambda: relay.nn.avg_pool2d(_image(16, 20), (2, 2), strides=(2, 2)),
        "gpu_tile",
    ),
}


@pytest.mark.parametrize("kind", few_fast(KINDS, 3))
def test_a_block_is_one_right_kernel(kind: str) -> None:
    make, template = KINDS[kind]
    # Pairs of a value and its place are reduced by one kernel and taken apart by another.
    assert_runs(make(), template, kernels=2 if kind == "argmax" else 1)


def test_the_last_template_serves_everything() -> None:
    assert GPU_TEMPLATES[-1].name == "gpu_default"
    for make, _ in list(KINDS.values())[:3]:
        assert make() is not None


@pytest.mark.slow
def test_an_adreno_reads_no_further_than_three_channels() -> None:
    # TVM's own convolution for Adreno reads past the weights of an image's three channels.
    adreno = tvm.target.Target("opencl -device=adreno", host="llvm")
    body = relay.nn.conv2d(_image(3, 16), var("w", 8, 3, 3, 3), padding=(1, 1))
    assert_runs(relay.nn.relu(body), "gpu_tile", target=adreno)
