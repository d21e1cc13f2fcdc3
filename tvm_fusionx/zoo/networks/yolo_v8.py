"""YOLOv8-n (Jocher et al. 2023), its boxes decoded.

The cut: overlapping boxes are suppressed by the program around the network.
"""

from __future__ import annotations

import torch
from torch import nn

from tvm_fusionx.zoo.networks.convolution_layers import conv_norm

CLASSES = 80
# Channels of the nano model's five stages, and how often the stages' blocks repeat.
CHANNELS = (16, 32, 64, 128, 256)
BACKBONE_REPEATS = (1, 2, 2, 1)
POOL_KERNEL = 5
STRIDES = (8, 16, 32)
# Each side of a box is a distribution over this many distances.
DISTANCES = 16
SIDES = 4


def _conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    return conv_norm(inputs, outputs, kernel, stride, activation=nn.SiLU)


class Residual(nn.Module):
    """Two 3x3 convolutions, added to their input where that is asked for."""

    def __init__(self, channels: int, is_residual: bool) -> None:
        super().__init__()
        self.layers = nn.Sequential(_conv(channels, channels, 3), _conv(channels, channels, 3))
        self.is_residual = is_residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, channels, h, w)`` to the same shape."""
        y = self.layers(x)
        return x + y if self.is_residual else y


class SplitStage(nn.Module):
    """Split the channels in two; every block sees the last part, and all parts are merged."""

    def __init__(self, inputs: int, outputs: int, blocks: int, is_residual: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.enter = _conv(inputs, outputs)
        self.blocks = nn.ModuleList(Residual(half, is_residual) for _ in range(blocks))
        self.merge = _conv((2 + blocks) * half, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, h, w)`` to ``(n, outputs, h, w)``."""
        parts = list(self.enter(x).chunk(2, dim=1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.merge(torch.cat(parts, dim=1))


class PyramidPool(nn.Module):
    """Three pools after one another, all of them beside the map."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        half = channels // 2
        self.enter = _conv(channels, half)
        self.pool = nn.MaxPool2d(POOL_KERNEL, 1, POOL_KERNEL // 2)
        self.merge = _conv(4 * half, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, channels, h, w)`` to the same shape."""
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.merge(torch.cat(parts, dim=1))


def _predictor(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        _conv(inputs, hidden, 3), _conv(hidden, hidden, 3), nn.Conv2d(hidden, outputs, 1)
    )


class Head(nn.Module):
    """A box and a class for each pixel of three maps, boxes in pixels of the picture."""

    def __init__(self, channels: tuple[int, int, int]) -> None:
        super().__init__()
        box_hidden = max(DISTANCES, channels[0] // SIDES, SIDES * DISTANCES)
        class_hidden = max(channels[0], CLASSES)
        self.boxes = nn.ModuleList(_predictor(c, box_hidden, SIDES * DISTANCES) for c in channels)
        self.classes = nn.ModuleList(_predictor(c, class_hidden, CLASSES) for c in channels)
        # The mean of a distribution is a convolution by 0, 1, 2, ...: the published model has it.
        self.register_buffer("distances", torch.arange(DISTANCES).view(1, DISTANCES, 1, 1).float())

    def forward(self, *maps: torch.Tensor) -> torch.Tensor:
        """Map three ``(n, channels, h, w)`` to ``(n, 4 + 80, pixels)``: x, y, width, height."""
        boxes, scores, centres, strides = [], [], [], []
        for box, kind, x, stride in zip(self.boxes, self.classes, maps, STRIDES, strict=True):
            batch, _, height, width = x.shape
            boxes.append(box(x).reshape(batch, SIDES * DISTANCES, -1))
            scores.append(kind(x).reshape(batch, CLASSES, -1))
            rows = (torch.arange(height, device=x.device) + 0.5).repeat_interleave(width)
            columns = (torch.arange(width, device=x.device) + 0.5).repeat(height)
            centres.append(torch.stack([columns, rows]))
            strides.append(torch.full((1, height * width), float(stride), device=x.device))
        merged = torch.cat(boxes, dim=2)
        shares = merged.reshape(merged.shape[0], SIDES, DISTANCES, -1).transpose(1, 2).softmax(1)
        left_top, right_bottom = nn.functional.conv2d(shares, self.distances).squeeze(1).chunk(2, 1)
        centre = torch.cat(centres, dim=1)
        first, last = centre - left_top, centre + right_bottom
        box_rows = torch.cat([(first + last) / 2, last - first], dim=1) * torch.cat(strides, dim=1)
        return torch.cat([box_rows, torch.cat(scores, dim=2).sigmoid()], dim=1)


class YoloV8n(nn.Module):
    """Backbone, two ways through a feature pyramid, and the head."""

    def __init__(self) -> None:
        super().__init__()
        a, b, c, d, e = CHANNELS
        self.stem = _conv(3, a, 3, 2)
        stages = zip((a, b, c, d), (b, c, d, e), BACKBONE_REPEATS, strict=True)
        self.stages = nn.ModuleList(
            nn.Sequential(_conv(inputs, outputs, 3, 2), SplitStage(outputs, outputs, n, True))
            for inputs, outputs, n in stages
        )
        self.pool = PyramidPool(e)
        self.grow = nn.Upsample(scale_factor=2)
        self.up_middle = SplitStage(d + e, d, 1, False)
        self.up_small = SplitStage(c + d, c, 1, False)
        self.shrink_small = _conv(c, c, 3, 2)
        self.down_middle = SplitStage(c + d, d, 1, False)
        self.shrink_middle = _conv(d, d, 3, 2)
        self.down_large = SplitStage(d + e, e, 1, False)
        self.head = Head((c, d, e))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, 3, 640, 640)`` to ``(n, 84, 8400)``: boxes and classes of 8400 pixels."""
        x = self.stem(x)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        large = self.pool(maps[3])
        middle = self.up_middle(torch.cat([self.grow(large), maps[2]], dim=1))
        small = self.up_small(torch.cat([self.grow(middle), maps[1]], dim=1))
        middle = self.down_middle(torch.cat([self.shrink_small(small), middle], dim=1))
        large = self.down_large(torch.cat([self.shrink_middle(middle), large], dim=1))
        return self.head(small, middle, large)
