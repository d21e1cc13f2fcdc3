"""What products take on a GPU by the estimate is what their kernels do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import tvm
from tvm import relay

from tests.relay_modules import const, module, var
from tests.schedules.gpu.gpu_blocks import OPENCL
from tests.schedules.sparse_blocks import pruned
from tvm_fusionx.layout.gpu_products import dense_issued, least_issued, plane_product
from tvm_fusionx.layout.sparse import judge
from tvm_fusionx.lowering import lowering
from tvm_fusionx.passes import FuseByMapping, PackLayouts, PackSparse
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.report.sparsity.layers import layers_of
from tvm_fusionx.schedules.gpu.work import GpuWork, gpu_work
from tvm_fusionx.sparse import pretend_pruned
from tvm_fusionx.sparse.gpu_tiling import best_form, planes_multiply_adds, sparse_issued

GPU = Gpu()

# What the tiles of the last work-group compute again.
MARGIN = 0.02


def _weight(outputs: int, length: int, rate: int = 8) -> Any:
    """Return a weight whose lists are equally long."""
    return pretend_pruned(pruned(outputs, length, 8, 1), 8, rate)


def _window(kernel: int) -> relay.Expr:
    x = relay.nn.conv2d(var("x", 1, 4, 28, 28), const(64, 4, 1, 1), channels=64, kernel_size=(1, 1))
    x = relay.nn.conv2d(
        relay.nn.relu(x),
        # At twice the rate, some channels of the input would be read by nobody, and would go.
        relay.const(_weight(128, 64 * kernel**2, 4).reshape(128, 64, kernel, kernel)),
        padding=(kernel // 2,) * 2,
        kernel_size=(kernel, kernel),
        channels=128,
    )
    # What reads chunks of channels: they are stored as vectors.
    return relay.nn.conv2d(relay.nn.relu(x), const(4, 128, 1, 1), channels=4, kernel_size=(1, 1))


def _rows(rows: int) -> relay.Expr:
    return relay.nn.dense(var("x", rows, 256), relay.const(_weight(512, 256)))


BODIES: dict[str, Callable[[], relay.Expr]] = {
    "rows": lambda: _rows(128),
    "windows": lambda: _window(3),
    "pixels": lambda: _window(1),
}


def _work(mod: tvm.IRModule, *passes: tvm.transform.Pass) -> GpuWork:
    """Return the work of the kernel that multiplies most."""
    order = [*passes, PackLayouts(OPENCL), FuseByMapping(OPENCL)]
    with lowering(OPENCL) as log:
        relay.build(tvm.transform.Sequential(order)(mod), target=OPENCL)
    return max(map(gpu_work, log.devices.values()), key=lambda work: work.multiply_adds)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n == "rows" else pytest.mark.slow) for n in BODIES]
)
def test_estimates_are_what_kernels_do(name: str) -> None:
    mod = module(BODIES[name]())
    (choice,) = [found for _, found in layers_of(mod, "opencl") if found is not None]
    layer = choice.layer
    channels, length = layer.matrix.shape
    product = plane_product(1, layer.places, length, layer.geometry, choice.lists, layer.lanes)
    form = best_form(product, GPU)
    sparse = sparse_issued(product, form, replace(GPU, busy_items=1))
    copying = planes_multiply_adds(product.planed) if form.in_planes else 0
    work = _work(mod, PackSparse(OPENCL, least_gain=0))
    assert work.multiply_adds == pytest.approx(sparse.multiply_adds - copying, rel=MARGIN)
    expected = sparse.loads - copying / GPU.lanes
    assert work.loads + work.stores == pytest.approx(expected, rel=MARGIN)
    dense = dense_issued(layer.places, channels, length, layer.geometry, GPU)
    work = _work(mod)
    assert work.multiply_adds == dense.multiply_adds
    # A weight that several places load counts for each; compilers load it once.
    assert work.loads / 2 < dense.loads < work.loads


def test_few_rows_wait_for_the_start_of_a_kernel() -> None:
    gains = {}
    for rows in (1, 16, 1024):
        (choice,) = [found for _, found in layers_of(module(_rows(rows)), "opencl")]
        assert choice is not None
        gains[rows] = choice.gain
    assert gains[16] < 1 < gains[1] < 3 < gains[1024] < 8
    assert judge(choice.layer, GPU, least_gain=100).reason is not None


def test_one_row_is_read_as_it_lies() -> None:
    ((_, choice),) = layers_of(module(_rows(1)), "opencl")
    assert choice is not None
    product = plane_product(1, 1, 256, None, choice.lists, choice.layer.lanes)
    assert not best_form(product, GPU).in_planes
    assert least_issued(product, GPU).loads > 0
