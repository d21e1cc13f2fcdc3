from __future__ import annotations

import pytest
from tvm import relay

from tests.passes.assert_pass import assert_numbers_agree, assert_unchanged
from tests.relay_modules import TARGET, const, module, operator_names, var
from tvm_fusionx.errors import TargetError
from tvm_fusionx.passes import PackLayouts

image, kernel = var("image", 1, 16, 8, 8), const(16, 16, 1, 1)
x = var("x", 4, 8)


def _packed(expr: relay.Expr) -> list[str]:
    before = module(expr)
    found = PackLayouts(TARGET)(before)
    assert_numbers_agree(before, found)
    return operator_names(found["main"])


def test_convolutions_in_a_row_change_layout_at_the_border_only() -> None:
    first = relay.nn.relu(relay.nn.conv2d(image, kernel))
    names = _packed(relay.nn.conv2d(first, kernel))
    assert names.count("nn.contrib_conv2d_NCHWc") == 2
    # One of them moves nothing, as 16 channels are one block of the layout: it is a reshape.
    assert names.count("layout_transform") + names.count("reshape") == 2


def test_an_operator_without_weights_keeps_its_layout() -> None:
    assert_unchanged(
        PackLayouts(TARGET), module(relay.exp(x)), because="nothing in it chooses a layout"
    )


def test_packing_again_changes_nothing() -> None:
    first = relay.nn.relu(relay.nn.conv2d(image, kernel))
    found = PackLayouts(TARGET)(module(first))
    assert_unchanged(PackLayouts(TARGET), found, because="it is packed already")


def test_a_kind_of_target_without_templates_is_refused() -> None:
    with pytest.raises(TargetError, match="kinds with templates: llvm, opencl; found 'c'"):
        PackLayouts("c")(module(relay.nn.conv2d(image, kernel)))


@pytest.mark.parametrize(("halves", "width"), [(False, 12), (True, 24)])
def test_panels_fill_vectors_of_halves_where_those_are_added(halves: bool, width: int) -> None:
    target = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -num-cores=1"
    product = module(relay.nn.dense(var("rows", 128, 384), const(384, 384)))
    found = PackLayouts(target, halves=halves)(product)["main"]
    assert f"({384 // width}, 384, {width})" in str(found)


@pytest.mark.slow
def test_a_gpu_takes_chunks_of_four_channels_and_weights_by_row() -> None:
    x = relay.nn.dense(relay.nn.batch_flatten(relay.nn.conv2d(image, kernel)), const(8, 1024))
    before = module(x)
    found = PackLayouts("opencl")(before)
    assert_numbers_agree(before, found)
    names = operator_names(found["main"])
    assert "nn.contrib_conv2d_NCHWc" in names
    assert "nn.matmul" in names
    assert "NCHW4c" in str(found)
    assert_unchanged(PackLayouts("opencl"), found, because="it is packed already")
