from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
layers = pytest.importorskip("tvm_fusionx.zoo.networks.convolution_layers")


@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (5, 2), (3, 2)])
def test_a_convolution_keeps_the_size_before_its_stride(kernel: int, stride: int) -> None:
    layer = layers.conv_norm(3, 4, kernel, stride, activation=torch.nn.ReLU).eval()
    assert layer(torch.ones(1, 3, 8, 8)).shape == (1, 4, 8 // stride, 8 // stride)
    assert isinstance(layer[-1], torch.nn.ReLU)


def test_squeeze_and_excite_scales_whole_channels() -> None:
    layer = layers.SqueezeExcite(4, 2, torch.nn.ReLU, torch.nn.Sigmoid).eval()
    x = torch.rand(1, 4, 3, 3) + 1
    with torch.no_grad():
        scales = layer(x) / x
    assert torch.allclose(scales, scales[:, :, :1, :1].expand_as(scales))
    assert ((scales > 0) & (scales < 1)).all()


@pytest.mark.parametrize(
    ("outputs", "stride", "is_residual"), [(4, 1, True), (5, 1, False), (4, 2, False)]
)
def test_a_shortcut_needs_one_shape(outputs: int, stride: int, is_residual: bool) -> None:
    layer = layers.InvertedResidual(4, 8, outputs, 3, stride, torch.nn.ReLU6).eval()
    assert layer.is_residual is is_residual
    x = torch.rand(1, 4, 8, 8)
    with torch.no_grad():
        difference = layer(x) - layer.layers(x)
    torch.testing.assert_close(difference, x if is_residual else 0 * difference)


def test_a_block_that_does_not_expand_has_no_first_convolution() -> None:
    assert len(layers.InvertedResidual(4, 4, 4, 3, 1, torch.nn.ReLU).layers) == 2
    assert len(layers.InvertedResidual(4, 8, 4, 3, 1, torch.nn.ReLU).layers) == 3
