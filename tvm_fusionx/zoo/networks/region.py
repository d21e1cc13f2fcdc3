"""The static parts of Faster R-CNN (Ren et al. 2015) and Mask R-CNN (He et al. 2017).

ResNet-50 with a feature pyramid (Lin et al. 2017), as torchvision publishes them. The cut: which
regions are looked at depends on the picture's contents, so they are an input, a fixed number of
boxes for each of the four maps, as proposal selection and non-maximum suppression hand them over;
what these two read is an output. All that is computed on pictures and regions is inside.
"""

from __future__ import annotations

import torch
from torch import nn

from tvm_fusionx.zoo.networks.region_align import align_regions
from tvm_fusionx.zoo.networks.residual import (
    BOTTLENECK_EXPANSION,
    RESNET50_STAGES,
    LaterBottleneck,
    stages,
    stem,
)

CLASSES = 91  # COCO's category numbers, with 0 for the background
BOX_VALUES = 4
PYRAMID_CHANNELS = 256
ANCHORS = 3  # aspect ratios, one size a map
STRIDES = (4, 8, 16, 32)
BOX_SIZE = 7
MASK_SIZE = 14
HIDDEN = 1024
MASK_CONVOLUTIONS = 4


class Pyramid(nn.Module):
    """ResNet-50's four maps, brought to 256 channels and added from the smallest up."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = stem()
        self.stages = nn.ModuleList(stages(LaterBottleneck, RESNET50_STAGES))
        widths = [width * BOTTLENECK_EXPANSION for width, _ in RESNET50_STAGES]
        self.sides = nn.ModuleList(nn.Conv2d(width, PYRAMID_CHANNELS, 1) for width in widths)
        self.smooth = nn.ModuleList(
            nn.Conv2d(PYRAMID_CHANNELS, PYRAMID_CHANNELS, 3, padding=1) for _ in widths
        )
        self.grow = nn.Upsample(scale_factor=2)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Map ``(n, 3, h, w)`` to four maps of 256 channels, at 1/4 to 1/32 of the size."""
        x = self.stem(x)
        sides = []
        for stage, side in zip(self.stages, self.sides, strict=True):
            x = stage(x)
            sides.append(side(x))
        summed = [sides[-1]]
        for side in reversed(sides[:-1]):
            summed.append(side + self.grow(summed[-1]))
        return [layer(y) for layer, y in zip(self.smooth, reversed(summed), strict=True)]


def _rows(x: torch.Tensor, values: int) -> torch.Tensor:
    """Turn ``(n, anchors * values, h, w)`` into ``(n, h * w * anchors, values)``."""
    return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, values)


class ProposalHead(nn.Module):
    """For each anchor of each map, whether there is an object, and its offsets."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Conv2d(PYRAMID_CHANNELS, PYRAMID_CHANNELS, 3, padding=1)
        self.objects = nn.Conv2d(PYRAMID_CHANNELS, ANCHORS, 1)
        self.offsets = nn.Conv2d(PYRAMID_CHANNELS, ANCHORS * BOX_VALUES, 1)

    def forward(self, maps: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Map the pyramid to ``(n, anchors, 1)`` scores and ``(n, anchors, 4)`` offsets."""
        smallest = nn.functional.max_pool2d(maps[-1], 1, 2)
        hidden = [torch.relu(self.hidden(x)) for x in (*maps, smallest)]
        objects = torch.cat([_rows(self.objects(x), 1) for x in hidden], dim=1)
        offsets = torch.cat([_rows(self.offsets(x), BOX_VALUES) for x in hidden], dim=1)
        return objects, offsets


class FasterRCNN(nn.Module):
    """The pyramid, the proposal head, and the class and box of given regions."""

    def __init__(self) -> None:
        super().__init__()
        self.pyramid = Pyramid()
        self.proposals = ProposalHead()
        self.hidden = nn.Sequential(
            nn.Linear(PYRAMID_CHANNELS * BOX_SIZE * BOX_SIZE, HIDDEN),
            nn.ReLU(),
            nn.Linear(HIDDEN, HIDDEN),
            nn.ReLU(),
        )
        self.classes = nn.Linear(HIDDEN, CLASSES)
        self.boxes = nn.Linear(HIDDEN, CLASSES * BOX_VALUES)

    def forward(self, x: torch.Tensor, regions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Map a picture and its regions to what selection and suppression read.

        Parameters
        ----------
        x
            ``(n, 3, h, w)``.
        regions
            ``(4, count, 4)``: boxes in pixels for each of the four maps.

        Returns
        -------
        outputs
            Proposals' scores and offsets, ``(n, anchors, 1)`` and ``(n, anchors, 4)``; the
            regions' class scores and boxes, ``(4 * n * count, 91)`` and ``(4 * n * count, 364)``.
        """
        return self.on_maps(self.pyramid(x), regions)

    def on_maps(self, maps: list[torch.Tensor], regions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs from the pyramid's maps."""
        hidden = self.hidden(aligned(maps, regions, BOX_SIZE).flatten(1))
        return (*self.proposals(maps), self.classes(hidden).softmax(-1), self.boxes(hidden))


class MaskRCNN(nn.Module):
    """Faster R-CNN, and a mask for every class of the given regions."""

    def __init__(self) -> None:
        super().__init__()
        self.detector = FasterRCNN()
        layers: list[nn.Module] = []
        for _ in range(MASK_CONVOLUTIONS):
            layers += [nn.Conv2d(PYRAMID_CHANNELS, PYRAMID_CHANNELS, 3, padding=1), nn.ReLU()]
        layers += [nn.ConvTranspose2d(PYRAMID_CHANNELS, PYRAMID_CHANNELS, 2, stride=2), nn.ReLU()]
        self.masks = nn.Sequential(*layers, nn.Conv2d(PYRAMID_CHANNELS, CLASSES, 1), nn.Sigmoid())

    def forward(self, x: torch.Tensor, regions: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Map as :class:`FasterRCNN` does, and to ``(4 * n * count, 91, 28, 28)`` masks."""
        maps = self.detector.pyramid(x)
        masks = self.masks(aligned(maps, regions, MASK_SIZE))
        return (*self.detector.on_maps(maps, regions), masks)


def aligned(maps: list[torch.Tensor], regions: torch.Tensor, size: int) -> torch.Tensor:
    """Return the bins of every map's regions, ``(4 * n * count, 256, size, size)``."""
    boxes = zip(maps, STRIDES, regions.unbind(), strict=True)
    return torch.cat([align_regions(x, part, stride, size) for x, stride, part in boxes])
