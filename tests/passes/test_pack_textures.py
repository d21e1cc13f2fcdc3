from __future__ import annotations

from tvm import relay

from tests.passes.assert_pass import assert_pass, assert_unchanged, block
from tests.relay_modules import const, module, var
from tvm_fusionx.passes import PackTextures

ADRENO = "opencl -device=adreno"
WEIGHT = const(32, 64)


def _blocks(in_pixels: bool) -> relay.Expr:
    p = var("p0", 8, 32)
    q = var("constant1", 32, 16, 4) if in_pixels else var("p1", 32, 64)
    matrix = relay.reshape(q, (32, 64)) if in_pixels else q
    value = WEIGHT.data.numpy()
    weight = relay.const(value.reshape(32, 16, 4) if in_pixels else value)
    return block("b", [p, q], relay.nn.matmul(p, matrix))(var("x", 8, 32), weight)


def test_weights_take_the_shape_of_an_image() -> None:
    assert_pass(PackTextures(ADRENO), module(_blocks(False)), module(_blocks(True)))


def test_a_device_without_textures_keeps_what_it_has() -> None:
    for target in ("opencl", "llvm"):
        assert_unchanged(PackTextures(target), module(_blocks(False)), because="no textures")
