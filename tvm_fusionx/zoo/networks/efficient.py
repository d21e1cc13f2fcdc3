"""EfficientNet-B0 (Tan and Le, ICML 2019, table 1)."""

from __future__ import annotations

from torch import nn

from tvm_fusionx.zoo.networks.convolution_layers import (
    InvertedResidual,
    SqueezeExcite,
    conv_norm,
)

CLASSES = 1000
STEM_CHANNELS = 32
HEAD_CHANNELS = 1280
# (expansion factor, kernel, output channels, blocks, stride of the first) of stages 2 to 8.
STAGES = (
    (1, 3, 16, 1, 1),
    (6, 3, 24, 2, 2),
    (6, 5, 40, 2, 2),
    (6, 3, 80, 3, 2),
    (6, 5, 112, 3, 1),
    (6, 5, 192, 4, 2),
    (6, 3, 320, 1, 1),
)
# Squeezed channels are this part of a block's *inputs*, not of its expanded channels.
SQUEEZE_DIVISOR = 4


def backbone_b0() -> nn.Sequential:
    """Return EfficientNet-B0 up to its last stage: a layer for the stem and one for each block."""
    channels = STEM_CHANNELS
    layers: list[nn.Module] = [conv_norm(3, channels, 3, 2, activation=nn.SiLU)]
    for factor, kernel, outputs, blocks, stride in STAGES:
        for index in range(blocks):
            expanded = channels * factor
            gate = SqueezeExcite(expanded, channels // SQUEEZE_DIVISOR, nn.SiLU, nn.Sigmoid)
            step = stride if index == 0 else 1
            layers.append(
                InvertedResidual(channels, expanded, outputs, kernel, step, nn.SiLU, gate)
            )
            channels = outputs
    return nn.Sequential(*layers)


def efficientnet_b0() -> nn.Sequential:
    """Return EfficientNet-B0: ``(n, 3, 224, 224)`` to 1000 scores."""
    channels = STAGES[-1][2]
    return nn.Sequential(
        *backbone_b0(),
        conv_norm(channels, HEAD_CHANNELS, 1, activation=nn.SiLU),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(HEAD_CHANNELS, CLASSES),
    )
