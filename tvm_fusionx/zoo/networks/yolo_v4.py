"""YOLO-V4 (Bochkovskiy et al. 2020), as its published yolov4.cfg has it, up to the three heads.

The cut: what follows the heads (decoding boxes and suppressing overlaps) is left to the program
around the network.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from tvm_fusionx.zoo.networks.convolution_layers import Activation, conv_norm

CLASSES = 80
ANCHORS = 3
BOX_VALUES = 5  # x, y, width, height, and whether there is an object
HEAD_CHANNELS = ANCHORS * (BOX_VALUES + CLASSES)
STEM_CHANNELS = 32
# (channels, residual blocks) of CSPDarknet53's five stages, each halving the size.
STAGES = ((64, 1), (128, 2), (256, 8), (512, 8), (1024, 4))
POOL_SIZES = (13, 9, 5)
LEAK = 0.1
LEAKY: Activation = partial(nn.LeakyReLU, LEAK)


class DarknetBlock(nn.Module):
    """A 1x1 and a 3x3 convolution, added to their input."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.reduce = conv_norm(channels, hidden, 1, activation=nn.Mish)
        self.filter = conv_norm(hidden, channels, 3, activation=nn.Mish)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, channels, h, w)`` to the same shape."""
        return x + self.filter(self.reduce(x))


class CrossStage(nn.Module):
    """Halve the size, send one part of the channels through the blocks, the other past them.

    The first stage keeps all channels on both ways, the later ones half on each.
    """

    def __init__(self, inputs: int, outputs: int, blocks: int, is_first: bool) -> None:
        super().__init__()
        way = outputs if is_first else outputs // 2
        self.down = conv_norm(inputs, outputs, 3, 2, activation=nn.Mish)
        self.past = conv_norm(outputs, way, 1, activation=nn.Mish)
        self.into = conv_norm(outputs, way, 1, activation=nn.Mish)
        hidden = way // 2 if is_first else way
        self.blocks = nn.Sequential(*(DarknetBlock(way, hidden) for _ in range(blocks)))
        self.out_of = conv_norm(way, way, 1, activation=nn.Mish)
        self.merge = conv_norm(2 * way, outputs, 1, activation=nn.Mish)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, h, w)`` to ``(n, outputs, h / 2, w / 2)``."""
        x = self.down(x)
        through = self.out_of(self.blocks(self.into(x)))
        return self.merge(torch.cat([through, self.past(x)], dim=1))


def _alternating(inputs: int, width: int, convolutions: int) -> nn.Sequential:
    """Return 1x1 convolutions to `width` and 3x3 ones to twice that, in turns."""
    layers = []
    for index in range(convolutions):
        outputs, kernel = (width, 1) if index % 2 == 0 else (2 * width, 3)
        layers.append(conv_norm(inputs, outputs, kernel, activation=LEAKY))
        inputs = outputs
    return nn.Sequential(*layers)


def _head(width: int) -> nn.Sequential:
    return nn.Sequential(
        conv_norm(width, 2 * width, 3, activation=LEAKY), nn.Conv2d(2 * width, HEAD_CHANNELS, 1)
    )


class PyramidPool(nn.Module):
    """The maxima over three windows beside the map itself."""

    def __init__(self) -> None:
        super().__init__()
        self.pools = nn.ModuleList(nn.MaxPool2d(size, 1, size // 2) for size in POOL_SIZES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, channels, h, w)`` to ``(n, 4 * channels, h, w)``."""
        return torch.cat([*(pool(x) for pool in self.pools), x], dim=1)


class Upward(nn.Module):
    """Join a map at twice the size of the one below it (PANet's first way)."""

    def __init__(self, below: int, side: int, width: int) -> None:
        super().__init__()
        self.narrow = conv_norm(below, width, 1, activation=LEAKY)
        self.grow = nn.Upsample(scale_factor=2)
        self.side = conv_norm(side, width, 1, activation=LEAKY)
        self.mix = _alternating(2 * width, width, 5)

    def forward(self, below: torch.Tensor, side: torch.Tensor) -> torch.Tensor:
        """Map ``(n, below, h, w)`` and ``(n, side, 2h, 2w)`` to ``(n, width, 2h, 2w)``."""
        return self.mix(torch.cat([self.side(side), self.grow(self.narrow(below))], dim=1))


class Downward(nn.Module):
    """Join a map at half the size of the one above it (PANet's second way)."""

    def __init__(self, above: int, width: int) -> None:
        super().__init__()
        self.shrink = conv_norm(above, width, 3, 2, activation=LEAKY)
        self.mix = _alternating(2 * width, width, 5)

    def forward(self, above: torch.Tensor, side: torch.Tensor) -> torch.Tensor:
        """Map ``(n, above, 2h, 2w)`` and ``(n, width, h, w)`` to ``(n, width, h, w)``."""
        return self.mix(torch.cat([self.shrink(above), side], dim=1))


class YoloV4(nn.Module):
    """CSPDarknet53, a spatial pyramid pool, PANet and three heads."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = conv_norm(3, STEM_CHANNELS, 3, activation=nn.Mish)
        channels = STEM_CHANNELS
        stages = []
        for index, (outputs, blocks) in enumerate(STAGES):
            stages.append(CrossStage(channels, outputs, blocks, is_first=index == 0))
            channels = outputs
        self.stages = nn.ModuleList(stages)
        small, middle, large = (width for width, _ in STAGES[2:])
        self.before_pool = _alternating(large, middle, 3)
        self.pool = PyramidPool()
        self.after_pool = _alternating(4 * middle, middle, 3)
        self.up_middle = Upward(middle, middle, small)
        self.up_small = Upward(small, small, small // 2)
        self.down_middle = Downward(small // 2, small)
        self.down_large = Downward(small, middle)
        self.heads = nn.ModuleList(map(_head, (small // 2, small, middle)))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Map ``(n, 3, h, w)`` to three heads of 255 channels, at 1/8, 1/16 and 1/32 of the size.

        A head holds, for each of 3 anchors, 4 values of a box, 1 of an object and 80 of classes.
        """
        x = self.stem(x)
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        large = self.after_pool(self.pool(self.before_pool(maps[4])))
        middle = self.up_middle(large, maps[3])
        small = self.up_small(middle, maps[2])
        middle = self.down_middle(small, middle)
        large = self.down_large(middle, large)
        outputs = zip(self.heads, (small, middle, large), strict=True)
        return tuple(head(features) for head, features in outputs)
