from __future__ import annotations

import pytest
import tvm
from tvm import relay

import tvm_fusionx as fx
from tests.opencl_device import require_opencl
from tests.relay_modules import (
    REASSOCIATING,
    assert_close,
    const,
    inputs_of,
    module,
    run_plain,
    var,
)
from tests.schedules.gpu.gpu_blocks import describe
from tests.schedules.matching import knobs_of
from tvm_fusionx.build.fused_build import build_fused
from tvm_fusionx.processors.gpu import Gpu
from tvm_fusionx.report.bench.plain_tvm import run_once
from tvm_fusionx.schedules.gpu.textures import (
    as_texture,
    is_constant,
    takes_pixels,
    texture_parameters,
    texture_weight,
    why_no_texture,
)
from tvm_fusionx.schedules.gpu.tile import GPU_TILE

ADRENO = tvm.target.Target("opencl -device=adreno", host="llvm")

# A narrowed result of few sums: two roundings of 2**-11 each.
NARROWED = 2.0**-8


def _product(name: str, columns: int = 8) -> relay.Expr:
    pixels = relay.reshape(var(name, 16, columns // 4, 4), (16, columns))
    return relay.nn.matmul(var("p0", 32, 16), pixels)


def _buffer(name: str, *shape: int, dtype: str = "float32") -> object:
    return tvm.tir.decl_buffer(shape, dtype, name)


@pytest.mark.parametrize(
    ("buffer", "reason"),
    [
        (_buffer("constant1", 16, 2, 4), None),
        (_buffer("constant1", 2, 2, 2, 2, 4, 4, dtype="float16"), None),
        (_buffer("p1", 16, 2, 4), "no constant"),
        (_buffer("constant1", 16, 8), "not a pixel"),
        (_buffer("constant1", 16, 2, 8), "not a pixel"),
        (_buffer("constant1", 16, 2, 4, dtype="int32"), "holds no int32"),
        (_buffer("constant1", 64, 2, 4), "64 x 2 pixels"),
        (_buffer("constant1", 2, 33, 2, 4), "2 x 66 pixels"),
    ],
)
def test_what_may_be_an_image(buffer: object, reason: str | None) -> None:
    found = why_no_texture(buffer, Gpu(texture_extent=32))
    assert found is None if reason is None else reason in str(found)


def test_only_constants_of_products_are_read_as_images() -> None:
    weight = texture_weight(describe(_product("constant1")))
    assert weight is not None
    assert is_constant(weight)
    assert texture_weight(describe(_product("p1"))) is None
    assert texture_weight(describe(var("constant0", 4, 4, 4) + var("p1", 4, 4, 4))) is None


def test_images_are_the_default_where_a_device_has_textures_and_tiles_take_whole_pixels() -> None:
    def knob(gpu: Gpu, columns: int = 8) -> tuple[int, tuple[int, ...]]:
        found = knobs_of(GPU_TILE, describe(_product("constant1", columns), gpu))["texture"]
        return found.default, found.choices

    assert knob(Gpu(has_textures=True, busy_items=1)) == (1, (0, 1))
    assert knob(Gpu(has_textures=True)) == (0, (0, 1))
    assert knob(Gpu(busy_items=1)) == (0, (0, 1))
    assert knob(Gpu(has_textures=True, busy_items=1, texture_extent=8)) == (0, (0,))


@pytest.mark.parametrize(
    ("width", "tile", "whole"),
    [(8, 4, True), (8, 8, True), (8, 1, True), (8, 2, False), (6, 1, False)],
)
def test_tiles_of_whole_pixels(width: int, tile: int, whole: bool) -> None:
    assert takes_pixels(width, tile) == whole


def test_columns_that_are_no_whole_pixels_are_read_from_a_buffer() -> None:
    pixels = relay.reshape(var("constant1", 16, 2, 4), (16, 8))
    body = relay.nn.matmul(var("p0", 32, 16), relay.strided_slice(pixels, [0, 0], [16, 6]))
    info = describe(body, Gpu(has_textures=True, busy_items=1))
    assert knobs_of(GPU_TILE, info)["texture"].choices == (0,)


def test_a_parameter_becomes_an_image_and_nothing_else_changes() -> None:
    info = describe(_product("constant1"))
    weight = texture_weight(info)
    found = as_texture(info.func, weight.data)
    assert texture_parameters(info.func) == {}
    assert texture_parameters(found) == {1: "global.texture-weight"}
    assert found.script().count("texture-weight") == 1
    back = found.script().replace(', "global.texture-weight"', "")
    assert back.count("T.reads") == info.func.script().count("T.reads")


def _net(columns: int) -> relay.Expr:
    """Return a net of a first layer of three channels, a layer of chunks, and a product."""
    x = relay.nn.conv2d(var("x", 1, 3, 64, 64), const(16, 3, 3, 3), padding=(1, 1))
    x = relay.nn.conv2d(relay.nn.relu(x), const(32, 16, 3, 3, seed=1), padding=(1, 1))
    x = relay.reshape(relay.transpose(relay.nn.relu(x), (0, 2, 3, 1)), (4096, 32))
    return relay.nn.dense(x * relay.const(0.1), const(columns, 32, seed=2))


@pytest.mark.slow
@pytest.mark.parametrize("precision", [None, "float16"])
def test_weights_of_a_net_are_images(precision: str | None) -> None:
    require_opencl()
    mod = module(_net(64))
    inputs = inputs_of(mod)
    build = build_fused(mod, ADRENO, precision=precision)
    served = [entry.knobs for entry in build.log.entries if entry.template == "gpu_tile"]
    assert [knobs["texture"] for knobs in served] == [1, 1, 1]
    source = build.library.get_lib().imported_modules[0].get_source()
    assert source.count("__read_only image2d_t") == len(served)
    assert "READ_IMAGEH(const" not in source
    found = run_once(build.library, inputs, tvm.opencl(0))
    assert_close(found, run_plain(mod, inputs), NARROWED if precision else REASSOCIATING)


@pytest.mark.slow
def test_without_textures_there_are_none() -> None:
    require_opencl()
    library = fx.build(module(_net(64)), "opencl")
    assert "image2d_t" not in library.get_lib().imported_modules[0].get_source()
