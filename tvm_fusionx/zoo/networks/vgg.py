"""VGG-16 (Simonyan and Zisserman, ICLR 2015, table 1, configuration D)."""

from __future__ import annotations

from torch import nn

CLASSES = 1000
# (channels, 3x3 convolutions) of the five stages, each ended by a pool of 2.
STAGES = ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3))
# 224 halved five times.
LAST_SIZE = 7
HIDDEN = 4096


def vgg16() -> nn.Sequential:
    """Return VGG-16: ``(n, 3, 224, 224)`` to 1000 scores."""
    channels = 3
    layers: list[nn.Module] = []
    for outputs, convolutions in STAGES:
        for _ in range(convolutions):
            layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.ReLU()]
            channels = outputs
        layers.append(nn.MaxPool2d(2))
    layers += [
        nn.Flatten(),
        nn.Linear(channels * LAST_SIZE * LAST_SIZE, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, HIDDEN),
        nn.ReLU(),
        nn.Linear(HIDDEN, CLASSES),
    ]
    return nn.Sequential(*layers)
