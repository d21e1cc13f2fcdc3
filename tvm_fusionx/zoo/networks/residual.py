"""ResNet-18 and ResNet-50 (He et al., CVPR 2016, table 1)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from tvm_fusionx.zoo.networks.convolution_layers import conv_norm

CLASSES = 1000
STEM_CHANNELS = 64
STEM_KERNEL = 7
# (width, blocks) of the four stages; every stage but the first halves the size in its first block.
RESNET18_STAGES = ((64, 2), (128, 2), (256, 2), (512, 2))
RESNET50_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
# A bottleneck's outputs are this many times its width.
BOTTLENECK_EXPANSION = 4


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    is_same_shape = stride == 1 and inputs == outputs
    return nn.Identity() if is_same_shape else conv_norm(inputs, outputs, 1, stride)


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, projected by a 1x1 convolution where shapes differ."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.first = conv_norm(inputs, width, 3, stride)
        self.second = conv_norm(width, width, 3)
        self.shortcut = _shortcut(inputs, width, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, h, w)`` to ``(n, width, h / stride, w / stride)``."""
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(y + self.shortcut(x))


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions and a shortcut; as published, the first one has the stride."""

    expansion = BOTTLENECK_EXPANSION
    is_stride_first = True

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = width * BOTTLENECK_EXPANSION
        first, second = (stride, 1) if self.is_stride_first else (1, stride)
        self.reduce = conv_norm(inputs, width, 1, first)
        self.filter = conv_norm(width, width, 3, second)
        self.expand = conv_norm(width, outputs, 1)
        self.shortcut = _shortcut(inputs, outputs, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, h, w)`` to ``(n, 4 * width, h / stride, w / stride)``."""
        y = torch.relu(self.filter(torch.relu(self.reduce(x))))
        return torch.relu(self.expand(y) + self.shortcut(x))


class LaterBottleneck(Bottleneck):
    """A bottleneck whose 3x3 convolution has the stride, as torchvision's detectors have it."""

    is_stride_first = False


def stem() -> nn.Sequential:
    """Return the 7x7 convolution and the pool before the stages: a quarter of the size."""
    return nn.Sequential(
        conv_norm(3, STEM_CHANNELS, STEM_KERNEL, 2, activation=nn.ReLU),
        nn.MaxPool2d(3, 2, padding=1),
    )


def stages(
    block: type[ResidualBlock] | type[Bottleneck], sizes: Sequence[tuple[int, int]]
) -> list[nn.Sequential]:
    """Return the four stages, of which the later three halve the size."""
    channels = STEM_CHANNELS
    made = []
    for stage, (width, blocks) in enumerate(sizes):
        layers = []
        for index in range(blocks):
            stride = 2 if stage > 0 and index == 0 else 1
            layers.append(block(channels, width, stride))
            channels = width * block.expansion
        made.append(nn.Sequential(*layers))
    return made


def _classifier(
    block: type[ResidualBlock] | type[Bottleneck], sizes: Sequence[tuple[int, int]]
) -> nn.Sequential:
    channels = sizes[-1][0] * block.expansion
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(stem(), *stages(block, sizes), *head)


def resnet18() -> nn.Sequential:
    """Return ResNet-18: ``(n, 3, 224, 224)`` to 1000 scores."""
    return _classifier(ResidualBlock, RESNET18_STAGES)


def resnet50() -> nn.Sequential:
    """Return ResNet-50: ``(n, 3, 224, 224)`` to 1000 scores."""
    return _classifier(Bottleneck, RESNET50_STAGES)
