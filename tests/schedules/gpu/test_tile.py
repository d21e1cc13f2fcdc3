from __future__ import annotations

import pytest
from tvm import relay

from tests.relay_modules import var
from tests.sampled import few_fast, few_fast_rows
from tests.schedules.gpu.gpu_blocks import assert_runs, describe
from tests.schedules.matching import knobs_of, why_not
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.schedules.gpu.tile import GPU_TILE, is_vector_of
from tvm_fusionx.schedules.gpu.tile_plan import axes_of

TILES = [(1, 4), (4, 1), (4, 4), (2, 8)]


@pytest.mark.parametrize(("tile_y", "tile_x"), few_fast_rows(TILES, 1))
def test_tiles_of_a_product_that_divide_nothing(tile_y: int, tile_x: int) -> None:
    body = relay.nn.relu(relay.nn.matmul(var("x", 33, 30), var("w", 30, 50)) + var("b", 50))
    assert_runs(body, "gpu_tile", knobs={"tile_x": tile_x, "tile_y": tile_y})


@pytest.mark.slow
@pytest.mark.parametrize(("tile_y", "tile_x"), TILES)
def test_tiles_of_a_convolution_that_divide_nothing(tile_y: int, tile_x: int) -> None:
    x = relay.nn.conv2d(var("x", 1, 5, 9, 11), var("w", 7, 5, 3, 3), padding=(1, 1))
    body = relay.clip(x + var("b", 7, 1, 1), 0, 6)
    assert_runs(body, "gpu_tile", knobs={"tile_x": tile_x, "tile_y": tile_y})


@pytest.mark.parametrize("shape", few_fast([(32, 64, 48), (33, 40, 50)], 1))
def test_operands_through_local_memory(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    body = relay.nn.relu(
        relay.nn.batch_matmul(var("x", 2, m, k), var("w", 2, k, n), transpose_b=False)
    )
    info = describe(body)
    assert knobs_of(GPU_TILE, info)["staged"].choices == (0, 1)
    knobs = {"tile_x": 4, "tile_y": 4, "items_x": 8, "items_y": 8, "staged": 1}
    entry = assert_runs(body, "gpu_tile", knobs=knobs)
    assert entry.knobs["staged"] == 1
    assert 'scope="shared"' in entry.func.script()


def test_several_reductions_are_refused() -> None:
    assert why_not(GPU_TILE, describe(relay.nn.softmax(var("x", 4, 6)))) is not None


def test_a_row_of_a_product_is_a_vector_where_columns_are_neighbours() -> None:
    def is_vector(body: relay.Expr) -> bool:
        (stage,) = describe(body).reductions
        return is_vector_of(stage, axes_of(stage), 4, Gpu())

    assert is_vector(relay.nn.matmul(var("x", 8, 8), var("w", 8, 8)))
    assert not is_vector(relay.nn.dense(var("x", 8, 8), var("w", 8, 8)))
    assert is_vector(relay.sum(var("x", 8, 8), axis=0))
    assert not is_vector(relay.sum(var("x", 8, 8), axis=1))


def _chunks(pad: int, stride: int) -> relay.Expr:
    x = relay.nn.contrib_conv2d_nchwc(
        var("x", 1, 3, 10, 10, 4),
        var("w", 2, 3, 3, 3, 4, 4),
        channels=8,
        kernel_size=(3, 3),
        strides=(stride, stride),
        padding=(pad, pad),
        data_layout="NCHW4c",
        kernel_layout="OIHW4i4o",
        out_layout="NCHW4c",
    )
    return relay.nn.relu(x + var("b", 1, 2, 1, 1, 4))


@pytest.mark.slow
@pytest.mark.parametrize(("pad", "stride"), [(0, 1), (1, 1), (1, 2)])
@pytest.mark.parametrize("tile_y", [1, 4])
def test_chunks_of_channels_are_vectors(pad: int, stride: int, tile_y: int) -> None:
    entry = assert_runs(
        _chunks(pad, stride), "gpu_tile", knobs={"tile_x": 4, "tile_y": tile_y, "items_y": 16}
    )
    assert "float32x4" in str(entry.func.script()) or "vectorized" in str(entry.func.script())


def test_channels_apart_in_chunks() -> None:
    body = relay.nn.contrib_depthwise_conv2d_nchwc(
        var("x", 1, 3, 9, 9, 4),
        var("w", 3, 1, 3, 3, 1, 4),
        channels=12,
        kernel_size=(3, 3),
        strides=(2, 2),
        padding=(1, 1),
        groups=12,
        data_layout="NCHW4c",
        kernel_layout="OIHW1i4o",
        out_layout="NCHW4c",
    )
    assert_runs(body, "gpu_tile", knobs={"tile_x": 4, "tile_y": 2})


@pytest.mark.slow
def test_an_expensive_operand_is_computed_once_by_a_kernel_before() -> None:
    x = var("x", 128, 96)
    body = relay.nn.matmul(x * relay.sigmoid(x), var("w", 96, 128))
    assert_runs(body, "gpu_tile", kernels=2)
