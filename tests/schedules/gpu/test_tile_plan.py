from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import var
from tests.schedules.gpu.gpu_blocks import describe
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.tile_plan import axes_of, can_stage, tile_knobs, within_limits

PRODUCT = relay.nn.matmul(var("x", 512, 64), var("w", 64, 512))
IMAGE = relay.nn.conv2d(var("x", 1, 16, 64, 64), var("w", 32, 16, 3, 3), padding=(1, 1))
DEPTHWISE = relay.nn.conv2d(var("x", 1, 16, 9, 9), var("w", 16, 1, 3, 3), groups=16)


@pytest.mark.parametrize(
    ("body", "x", "y", "between"),
    [(PRODUCT, 1, 0, ()), (IMAGE, 3, 1, (2,)), (DEPTHWISE, 3, None, (0, 1, 2))],
)
def test_axes_have_roles(body: relay.Expr, x: int, y: int | None, between: tuple[int, ...]) -> None:
    (stage,) = describe(body).reductions
    axes = axes_of(stage)
    assert (axes.x, axes.y, axes.between) == (x, y, between)


def test_large_results_take_large_tiles_and_small_ones_keep_the_device_busy() -> None:
    def tile(body: relay.Expr) -> tuple[int, int]:
        (stage,) = describe(body).reductions
        knobs = tile_knobs(stage, Gpu())
        return knobs["tile_y"].default, knobs["tile_x"].default

    assert tile(PRODUCT) == (4, 4)
    assert tile(relay.nn.matmul(var("x", 8, 8), var("w", 8, 8))) == (1, 1)
    assert tile(relay.nn.max_pool2d(var("x", 1, 64, 64, 64), (2, 2))) == (1, 1)


def test_groups_and_tiles_stay_within_the_device() -> None:
    values = {"tile_x": 8, "tile_y": 8, "items_x": 128, "items_y": 8, "staged": 0}
    chosen = within_limits(values, Gpu(items=64, accumulators=16))
    assert chosen["items_x"] * chosen["items_y"] <= 64
    assert chosen["tile_x"] * chosen["tile_y"] <= 16


def test_only_products_pass_through_local_memory() -> None:
    for body, expected in ((PRODUCT, True), (IMAGE, False), (DEPTHWISE, False)):
        (stage,) = describe(body).reductions
        assert can_stage(stage, axes_of(stage)) is expected
