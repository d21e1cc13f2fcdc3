"""MobileNet, versions 1 (Howard 2017), 2 (Sandler 2018) and 3 (Howard 2019, with others each)."""

from __future__ import annotations

from torch import nn

from tvm_fusionx.zoo.networks.convolution_layers import (
    Activation,
    InvertedResidual,
    SqueezeExcite,
    conv_norm,
)

CLASSES = 1000

# (output channels, stride) of version 1's thirteen depthwise-separable layers.
V1_STEM_CHANNELS = 32
V1_LAYERS = (
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

# (expansion factor, output channels, blocks, stride of the first) of version 2's table 2.
V2_STEM_CHANNELS = 32
V2_HEAD_CHANNELS = 1280
V2_LAYERS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)

# (kernel, expanded channels, output channels, squeezed channels or 0, activation, stride) of
# version 3's table 1, the large one. Squeezed: a quarter, rounded to the hardware's multiple of 8.
V3_STEM_CHANNELS = 16
V3_LAST_CHANNELS = 960
V3_HEAD_CHANNELS = 1280
V3_LAYERS: tuple[tuple[int, int, int, int, Activation, int], ...] = (
    (3, 16, 16, 0, nn.ReLU, 1),
    (3, 64, 24, 0, nn.ReLU, 2),
    (3, 72, 24, 0, nn.ReLU, 1),
    (5, 72, 40, 24, nn.ReLU, 2),
    (5, 120, 40, 32, nn.ReLU, 1),
    (5, 120, 40, 32, nn.ReLU, 1),
    (3, 240, 80, 0, nn.Hardswish, 2),
    (3, 200, 80, 0, nn.Hardswish, 1),
    (3, 184, 80, 0, nn.Hardswish, 1),
    (3, 184, 80, 0, nn.Hardswish, 1),
    (3, 480, 112, 120, nn.Hardswish, 1),
    (3, 672, 112, 168, nn.Hardswish, 1),
    (5, 672, 160, 168, nn.Hardswish, 2),
    (5, 960, 160, 240, nn.Hardswish, 1),
    (5, 960, 160, 240, nn.Hardswish, 1),
)


def v1_features() -> list[nn.Module]:
    """Return version 1's stem and its thirteen depthwise-separable layers."""
    channels = V1_STEM_CHANNELS
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2, activation=nn.ReLU)]
    for outputs, stride in V1_LAYERS:
        layers.append(
            nn.Sequential(
                conv_norm(channels, channels, 3, stride, groups=channels, activation=nn.ReLU),
                conv_norm(channels, outputs, 1, activation=nn.ReLU),
            )
        )
        channels = outputs
    return layers


def mobilenet_v1() -> nn.Sequential:
    """Return MobileNetV1 of width 1: ``(n, 3, 224, 224)`` to 1000 scores."""
    channels = V1_LAYERS[-1][0]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*v1_features(), *head)


def mobilenet_v2() -> nn.Sequential:
    """Return MobileNetV2 of width 1: ``(n, 3, 224, 224)`` to 1000 scores."""
    channels = V2_STEM_CHANNELS
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2, activation=nn.ReLU6)]
    for factor, outputs, blocks, stride in V2_LAYERS:
        for index in range(blocks):
            step = stride if index == 0 else 1
            layers.append(InvertedResidual(channels, channels * factor, outputs, 3, step, nn.ReLU6))
            channels = outputs
    layers += [
        conv_norm(channels, V2_HEAD_CHANNELS, 1, activation=nn.ReLU6),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(V2_HEAD_CHANNELS, CLASSES),
    ]
    return nn.Sequential(*layers)


def mobilenet_v3_large() -> nn.Sequential:
    """Return MobileNetV3-Large of width 1: ``(n, 3, 224, 224)`` to 1000 scores."""
    channels = V3_STEM_CHANNELS
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2, activation=nn.Hardswish)]
    for kernel, expanded, outputs, squeezed, activation, stride in V3_LAYERS:
        gate = SqueezeExcite(expanded, squeezed, nn.ReLU, nn.Hardsigmoid) if squeezed else None
        layers.append(
            InvertedResidual(channels, expanded, outputs, kernel, stride, activation, gate)
        )
        channels = outputs
    layers += [
        conv_norm(channels, V3_LAST_CHANNELS, 1, activation=nn.Hardswish),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(V3_LAST_CHANNELS, V3_HEAD_CHANNELS),
        nn.Hardswish(),
        nn.Linear(V3_HEAD_CHANNELS, CLASSES),
    ]
    return nn.Sequential(*layers)
