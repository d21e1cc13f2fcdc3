"""MobileNetV1-SSD at 300x300 (Howard et al. 2017, table 13; Liu et al., ECCV 2016).

The cut: boxes come out as offsets from the anchors, one row an anchor; decoding them and
suppressing overlaps is left to the program around the network.
"""

from __future__ import annotations

import torch
from torch import nn

from tvm_fusionx.zoo.networks.convolution_layers import conv_norm
from tvm_fusionx.zoo.networks.mobile import v1_features

CLASSES = 91  # COCO's category numbers, with 0 for the background
BOX_VALUES = 4
# Layers of MobileNetV1 whose maps are looked at: the eleventh separable one and the last.
FEATURE_LAYERS = (11, 13)
# (narrow channels, channels) of the four pairs of convolutions after MobileNet.
EXTRA_LAYERS = ((256, 512), (128, 256), (128, 256), (64, 128))
FEATURE_CHANNELS = (512, 1024, 512, 256, 256, 128)
ANCHORS = (3, 6, 6, 6, 6, 6)


def _rows(x: torch.Tensor, values: int) -> torch.Tensor:
    """Turn ``(n, anchors * values, h, w)`` into ``(n, h * w * anchors, values)``."""
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, values)


class MobileNetSSD(nn.Module):
    """MobileNetV1, four pairs of convolutions, and a box and a class predictor on six maps."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.ModuleList(v1_features())
        channels = FEATURE_CHANNELS[1]
        extras = []
        for narrow, outputs in EXTRA_LAYERS:
            extras.append(
                nn.Sequential(
                    conv_norm(channels, narrow, 1, activation=nn.ReLU6),
                    conv_norm(narrow, outputs, 3, 2, activation=nn.ReLU6),
                )
            )
            channels = outputs
        self.extras = nn.ModuleList(extras)
        maps = list(zip(FEATURE_CHANNELS, ANCHORS, strict=True))
        self.boxes = nn.ModuleList(nn.Conv2d(c, a * BOX_VALUES, 1) for c, a in maps)
        self.classes = nn.ModuleList(nn.Conv2d(c, a * CLASSES, 1) for c, a in maps)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map ``(n, 3, 300, 300)`` to ``(n, 1917, 4)`` offsets and ``(n, 1917, 91)`` scores."""
        maps = []
        for index, layer in enumerate(self.features):
            x = layer(x)
            if index in FEATURE_LAYERS:
                maps.append(x)
        for layer in self.extras:
            x = layer(x)
            maps.append(x)
        boxes = [_rows(f(m), BOX_VALUES) for f, m in zip(self.boxes, maps, strict=True)]
        scores = [_rows(f(m), CLASSES) for f, m in zip(self.classes, maps, strict=True)]
        return torch.cat(boxes, dim=1), torch.cat(scores, dim=1).sigmoid()
