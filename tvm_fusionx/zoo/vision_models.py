"""ResNet-18 (He et al. 2015, table 1) and MobileNetV1 (Howard et al. 2017) in torch, by layer."""

from __future__ import annotations

import torch
from torch import nn

CLASSES = 1000
# (output channels, stride of the first block) of ResNet's four stages, two blocks each.
RESNET18_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
BLOCKS_PER_STAGE = 2
RESNET_STEM_KERNEL = 7
# (output channels, stride) of MobileNet's thirteen depthwise-separable layers.
MOBILENET_STEM_CHANNELS = 32
MOBILENET_LAYERS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1
) -> nn.Sequential:
    """Return a convolution that keeps the size (before its stride), and its batch norm."""
    conv = nn.Conv2d(
        inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut, projected by a 1x1 convolution where shapes differ."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = conv_norm(inputs, outputs, 3, stride)
        self.second = conv_norm(outputs, outputs, 3)
        is_same_shape = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if is_same_shape else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, h, w)`` to ``(n, outputs, h / stride, w / stride)``."""
        y = self.second(torch.relu(self.first(x)))
        return torch.relu(y + self.shortcut(x))


def resnet18() -> nn.Sequential:
    """Return ResNet-18: ``(n, 3, 224, 224)`` to 1000 scores."""
    channels = RESNET18_STAGES[0][0]
    layers: list[nn.Module] = [
        conv_norm(3, channels, RESNET_STEM_KERNEL, 2),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    for outputs, stride in RESNET18_STAGES:
        for block in range(BLOCKS_PER_STAGE):
            layers.append(ResidualBlock(channels, outputs, stride if block == 0 else 1))
            channels = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*layers)


def mobilenet_v1() -> nn.Sequential:
    """Return MobileNetV1 of width 1: ``(n, 3, 224, 224)`` to 1000 scores."""
    channels = MOBILENET_STEM_CHANNELS
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2), nn.ReLU()]
    for outputs, stride in MOBILENET_LAYERS:
        layers += [conv_norm(channels, channels, 3, stride, groups=channels), nn.ReLU()]
        layers += [conv_norm(channels, outputs, 1), nn.ReLU()]
        channels = outputs
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*layers)
