"""R(2+1)D of 18 layers (Tran et al., CVPR 2018): each convolution over space, then over time."""

from __future__ import annotations

import torch
from torch import nn

CLASSES = 400  # Kinetics
STEM_MIDDLE, STEM = 45, 64
WIDTHS = (64, 128, 256, 512)
BLOCKS_A_STAGE = 2


def _middle(inputs: int, outputs: int) -> int:
    """Return the channels between the two that give both the parameters of a 3x3x3 convolution."""
    return (inputs * outputs * 3 * 3 * 3) // (inputs * 3 * 3 + 3 * outputs)


def _separated(inputs: int, outputs: int, middle: int, stride: int) -> list[nn.Module]:
    return [
        nn.Conv3d(inputs, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
        nn.BatchNorm3d(middle),
        nn.ReLU(),
        nn.Conv3d(middle, outputs, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
        nn.BatchNorm3d(outputs),
    ]


class _Block(nn.Module):
    """Two separated convolutions and what passes by them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        # Both convolutions of a block have the first one's middle, as the authors' program has it.
        middle = _middle(inputs, outputs)
        self.layers = nn.Sequential(
            *_separated(inputs, outputs, middle, stride),
            nn.ReLU(),
            *_separated(outputs, outputs, middle, 1),
        )
        self.beside = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.beside = nn.Sequential(
                nn.Conv3d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm3d(outputs)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, t, h, w)`` to ``(n, outputs, t, h, w)``, each over the stride."""
        return torch.relu(self.layers(x) + self.beside(x))


def r2plus1d_18() -> nn.Sequential:
    """Return R(2+1)D of 18 layers: ``(n, 3, frames, 112, 112)`` to 400 scores."""
    layers: list[nn.Module] = [
        nn.Conv3d(3, STEM_MIDDLE, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False),
        nn.BatchNorm3d(STEM_MIDDLE),
        nn.ReLU(),
        nn.Conv3d(STEM_MIDDLE, STEM, (3, 1, 1), 1, (1, 0, 0), bias=False),
        nn.BatchNorm3d(STEM),
        nn.ReLU(),
    ]
    inputs = STEM
    for stage, width in enumerate(WIDTHS):
        for block in range(BLOCKS_A_STAGE):
            layers.append(_Block(inputs, width, 2 if stage > 0 and block == 0 else 1))
            inputs = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(inputs, CLASSES))
