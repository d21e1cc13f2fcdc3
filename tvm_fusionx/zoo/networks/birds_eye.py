"""Detectors that see points of a laser scanner from above: PIXOR and PointPillars."""

from __future__ import annotations

import torch
from torch import nn

from tvm_fusionx.zoo.networks.convolution_layers import conv_norm

PIXOR_HEIGHTS = 36  # 35 slices of 0.1 m and the reflectance
PIXOR_SIZE = (800, 700)
PIXOR_STEM = 32
# (inner channels, blocks) of the stages; a block's outputs are four times its inner channels.
PIXOR_STAGES = ((24, 3), (48, 6), (64, 6), (96, 3))
PIXOR_EXPANSION = 4
PIXOR_LATERAL = (196, 128, 96)
PIXOR_HEAD_LAYERS = 4
PIXOR_BOX = 6

PILLARS, POINTS = 12_000, 100
POINT_FEATURES = 9
PILLAR_WIDTH = 64
PILLAR_ROWS, PILLAR_COLUMNS = 496, 432
# (channels, convolutions, upsampling) of the stages; each begins with a stride of two.
PILLAR_STAGES = ((64, 4, 1), (128, 6, 2), (256, 6, 4))
PILLAR_UP = 128
ROTATIONS = 2
PILLAR_BOX = 7


class _Bottleneck(nn.Module):
    """A residual block whose 3x3 convolution has a quarter of the channels."""

    def __init__(self, inputs: int, inner: int, stride: int) -> None:
        super().__init__()
        outputs = inner * PIXOR_EXPANSION
        self.layers = nn.Sequential(
            conv_norm(inputs, inner, 1, activation=nn.ReLU),
            conv_norm(inner, inner, 3, stride, activation=nn.ReLU),
            conv_norm(inner, outputs, 1),
        )
        fits = stride == 1 and inputs == outputs
        self.beside = nn.Identity() if fits else conv_norm(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, h, w)`` to ``(n, 4 inner, h / stride, w / stride)``."""
        return torch.relu(self.layers(x) + self.beside(x))


class Pixor(nn.Module):
    """PIXOR (Yang, Luo and Urtasun, CVPR 2018, figure 2): a score and a box at each cell."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            conv_norm(PIXOR_HEIGHTS, PIXOR_STEM, 3, activation=nn.ReLU),
            conv_norm(PIXOR_STEM, PIXOR_STEM, 3, activation=nn.ReLU),
        )
        self.stages = nn.ModuleList()
        inputs = PIXOR_STEM
        for inner, blocks in PIXOR_STAGES:
            layers = []
            for index in range(blocks):
                layers.append(_Bottleneck(inputs, inner, 2 if index == 0 else 1))
                inputs = inner * PIXOR_EXPANSION
            self.stages.append(nn.Sequential(*layers))
        coarse, middle, fine = PIXOR_LATERAL
        widths = [inner * PIXOR_EXPANSION for inner, _ in PIXOR_STAGES]
        self.lateral = nn.ModuleList(
            nn.Conv2d(width, outputs, 1)
            for width, outputs in zip(widths[:0:-1], PIXOR_LATERAL, strict=True)
        )
        self.up = nn.ModuleList(
            (
                nn.ConvTranspose2d(coarse, middle, 3, 2, 1, output_padding=1),
                nn.ConvTranspose2d(middle, fine, 3, 2, 1, output_padding=(1, 0)),
            )
        )
        self.head = nn.Sequential(
            *(conv_norm(fine, fine, 3, activation=nn.ReLU) for _ in range(PIXOR_HEAD_LAYERS))
        )
        self.score = nn.Conv2d(fine, 1, 3, padding=1)
        self.box = nn.Conv2d(fine, PIXOR_BOX, 3, padding=1)

    def forward(self, cells: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map ``(n, 36, 800, 700)`` to ``(n, 1, 200, 175)`` and ``(n, 6, 200, 175)``."""
        x = self.stem(cells)
        levels = []
        for stage in self.stages:
            x = stage(x)
            levels.append(x)
        coarse, middle, fine = (
            lateral(level) for lateral, level in zip(self.lateral, levels[:0:-1], strict=True)
        )
        x = middle + self.up[0](coarse)
        x = self.head(fine + self.up[1](x))
        return torch.sigmoid(self.score(x)), self.box(x)


class PointPillars(nn.Module):
    """PointPillars for cars (Lang et al., CVPR 2019, section 2), before boxes are decoded."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = nn.Linear(POINT_FEATURES, PILLAR_WIDTH, bias=False)
        self.norm = nn.BatchNorm1d(PILLAR_WIDTH)
        self.stages = nn.ModuleList()
        self.up = nn.ModuleList()
        inputs = PILLAR_WIDTH
        for width, layers, factor in PILLAR_STAGES:
            stage = [conv_norm(inputs, width, 3, 2, activation=nn.ReLU)]
            stage += [conv_norm(width, width, 3, activation=nn.ReLU) for _ in range(layers - 1)]
            self.stages.append(nn.Sequential(*stage))
            self.up.append(
                nn.Sequential(
                    nn.ConvTranspose2d(width, PILLAR_UP, factor, factor, bias=False),
                    nn.BatchNorm2d(PILLAR_UP),
                    nn.ReLU(),
                )
            )
            inputs = width
        together = PILLAR_UP * len(PILLAR_STAGES)
        self.score = nn.Conv2d(together, ROTATIONS, 1)
        self.box = nn.Conv2d(together, ROTATIONS * PILLAR_BOX, 1)
        self.direction = nn.Conv2d(together, ROTATIONS * 2, 1)

    def forward(
        self, points: torch.Tensor, places: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Map pillars of points to scores, boxes and directions on half of the grid.

        Parameters
        ----------
        points
            ``(pillars, points, 9)``; missing ones are zeros.
        places
            Where each pillar stands, ``row * 432 + column``: ``(pillars,)`` of int64, no two alike.
        """
        x = torch.relu(self.norm(self.dense(points).transpose(1, 2))).amax(2)
        plane = torch.zeros(PILLAR_WIDTH, PILLAR_ROWS * PILLAR_COLUMNS, device=x.device)
        plane = plane.scatter(1, places[None].expand(PILLAR_WIDTH, -1), x.transpose(0, 1))
        x = plane.reshape(1, PILLAR_WIDTH, PILLAR_ROWS, PILLAR_COLUMNS)
        raised = []
        for stage, up in zip(self.stages, self.up, strict=True):
            x = stage(x)
            raised.append(up(x))
        x = torch.cat(raised, 1)
        return self.score(x), self.box(x), self.direction(x)
