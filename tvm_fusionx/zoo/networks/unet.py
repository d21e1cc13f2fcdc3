"""U-Net (Ronneberger et al., MICCAI 2015, figure 1), with its unpadded convolutions and crops."""

from __future__ import annotations

import torch
from torch import nn

# One grey channel in, one score for each of two classes out.
INPUTS = 1
CLASSES = 2
WIDTHS = (64, 128, 256, 512, 1024)


def _two_convolutions(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3), nn.ReLU(), nn.Conv2d(outputs, outputs, 3), nn.ReLU()
    )


def _crop(x: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    top = (x.shape[2] - like.shape[2]) // 2
    left = (x.shape[3] - like.shape[3]) // 2
    return x[:, :, top : top + like.shape[2], left : left + like.shape[3]]


class UNet(nn.Module):
    """A contracting path and an expanding one that also sees the contracting one's maps.

    Any tile whose size stays even before each of the four pools can be taken, as the paper's
    overlap-tile strategy has it: 572 (its own figure), 284, 188.
    """

    def __init__(self) -> None:
        super().__init__()
        inputs = (INPUTS, *WIDTHS[:-1])
        self.down = nn.ModuleList(map(_two_convolutions, inputs, WIDTHS))
        self.pool = nn.MaxPool2d(2)
        narrower, wider = WIDTHS[-2::-1], WIDTHS[:0:-1]
        self.widen = nn.ModuleList(
            nn.ConvTranspose2d(a, b, 2, stride=2) for a, b in zip(wider, narrower, strict=True)
        )
        self.up = nn.ModuleList(
            _two_convolutions(a, b) for a, b in zip(wider, narrower, strict=True)
        )
        self.head = nn.Conv2d(WIDTHS[0], CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, 1, size, size)`` to ``(n, 2, size - 184, size - 184)``."""
        seen = []
        for index, layer in enumerate(self.down):
            x = layer(x if index == 0 else self.pool(x))
            seen.append(x)
        for widen, layer, skip in zip(self.widen, self.up, seen[-2::-1], strict=True):
            x = widen(x)
            x = layer(torch.cat([_crop(skip, x), x], dim=1))
        return self.head(x)
