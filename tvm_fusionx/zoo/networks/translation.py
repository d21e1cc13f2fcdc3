"""Pictures to pictures: CycleGAN's generator, fast style transfer, and WDSR-b of 16 blocks.

Zhu et al., ICCV 2017 (appendix 7.2); Johnson et al., ECCV 2016 (supplement), with the resizes and
instance norms that its later programs have; Yu et al., 2018.
"""

from __future__ import annotations

import torch
from torch import nn

CYCLE_WIDTH = 64
CYCLE_BLOCKS = 9  # for pictures of 256 and more

STYLE_WIDTHS = (32, 64, 128)
STYLE_BLOCKS = 5

WDSR_WIDTH = 32
WDSR_EXPANSION = 6
WDSR_LINEAR_SHARE = 0.8
WDSR_BLOCKS = 16
WDSR_SCALE = 4


def _reflected(inputs: int, outputs: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    return [nn.ReflectionPad2d(kernel // 2), nn.Conv2d(inputs, outputs, kernel, stride)]


class _Residual(nn.Module):
    """Layers, and the input added to what they make."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, channels, h, w)`` to the same shape."""
        return x + self.layers(x)


def cyclegan_generator() -> nn.Sequential:
    """Return CycleGAN's generator of 9 blocks: ``(n, 3, h, w)`` to the same shape."""
    one, two, four = CYCLE_WIDTH, 2 * CYCLE_WIDTH, 4 * CYCLE_WIDTH
    layers = [*_reflected(3, one, 7), nn.InstanceNorm2d(one), nn.ReLU()]
    for inputs, outputs in ((one, two), (two, four)):
        layers += [
            nn.Conv2d(inputs, outputs, 3, stride=2, padding=1),
            nn.InstanceNorm2d(outputs),
            nn.ReLU(),
        ]
    for _ in range(CYCLE_BLOCKS):
        first = [*_reflected(four, four, 3), nn.InstanceNorm2d(four), nn.ReLU()]
        layers.append(_Residual(*first, *_reflected(four, four, 3), nn.InstanceNorm2d(four)))
    for inputs, outputs in ((four, two), (two, one)):
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 3, stride=2, padding=1, output_padding=1),
            nn.InstanceNorm2d(outputs),
            nn.ReLU(),
        ]
    return nn.Sequential(*layers, *_reflected(one, 3, 7), nn.Tanh())


def fast_style_transfer() -> nn.Sequential:
    """Return the transformer of styles: ``(n, 3, h, w)`` to the same shape, h and w by 4."""
    layers: list[nn.Module] = []
    channels = 3
    for outputs, kernel, stride in zip(STYLE_WIDTHS, (9, 3, 3), (1, 2, 2), strict=True):
        layers += _reflected(channels, outputs, kernel, stride)
        layers += [nn.InstanceNorm2d(outputs, affine=True), nn.ReLU()]
        channels = outputs
    for _ in range(STYLE_BLOCKS):
        first = [*_reflected(channels, channels, 3), nn.InstanceNorm2d(channels, affine=True)]
        second = [*_reflected(channels, channels, 3), nn.InstanceNorm2d(channels, affine=True)]
        layers.append(_Residual(*first, nn.ReLU(), *second))
    for outputs in STYLE_WIDTHS[-2::-1]:
        layers += [nn.Upsample(scale_factor=2), *_reflected(channels, outputs, 3)]
        layers += [nn.InstanceNorm2d(outputs, affine=True), nn.ReLU()]
        channels = outputs
    return nn.Sequential(*layers, *_reflected(channels, 3, 9))


class WdsrB(nn.Module):
    """WDSR-b: wide activation, a linear low-rank convolution behind it, a pixel shuffle at the end.

    Weight normalisation is folded into the weights, as it is for inference.
    """

    def __init__(self, scale: int = WDSR_SCALE) -> None:
        super().__init__()
        wide, narrow = WDSR_WIDTH * WDSR_EXPANSION, int(WDSR_WIDTH * WDSR_LINEAR_SHARE)
        blocks = [
            _Residual(
                nn.Conv2d(WDSR_WIDTH, wide, 1),
                nn.ReLU(),
                nn.Conv2d(wide, narrow, 1),
                nn.Conv2d(narrow, WDSR_WIDTH, 3, padding=1),
            )
            for _ in range(WDSR_BLOCKS)
        ]
        outputs = 3 * scale * scale
        self.body = nn.Sequential(
            nn.Conv2d(3, WDSR_WIDTH, 3, padding=1),
            *blocks,
            nn.Conv2d(WDSR_WIDTH, outputs, 3, padding=1),
            nn.PixelShuffle(scale),
        )
        self.skip = nn.Sequential(nn.Conv2d(3, outputs, 5, padding=2), nn.PixelShuffle(scale))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, 3, h, w)`` to ``(n, 3, scale * h, scale * w)``."""
        return self.body(x) + self.skip(x)
