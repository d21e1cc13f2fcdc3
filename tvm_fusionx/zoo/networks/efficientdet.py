"""EfficientDet-D0 (Tan, Pang and Le, CVPR 2020): EfficientNet-B0, three BiFPNs, two heads."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from tvm_fusionx.zoo.networks.efficient import backbone_b0

WIDTH = 64
PYRAMIDS = 3
HEAD_LAYERS = 3
LEVELS = 5
CLASSES = 90  # COCO's numbers
ANCHORS = 9
CORNERS = 4
EPSILON = 1e-4

# The levels that a stage of the backbone ends at, as indices of its blocks' list: P3, P4 and P5.
STAGE_ENDS = (5, 11, 16)
STAGE_WIDTHS = (40, 112, 320)

# What each node of a BiFPN adds up (figure 3): numbers below LEVELS are inputs, P3 first, the
# others are nodes before it; and the level that it lies on.
NODES = (
    (3, (3, 4)),
    (2, (2, 5)),
    (1, (1, 6)),
    (0, (0, 7)),
    (1, (1, 7, 8)),
    (2, (2, 6, 9)),
    (3, (3, 5, 10)),
    (4, (4, 11)),
)


def _separable(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, inputs, 3, padding=1, groups=inputs, bias=False),
        nn.Conv2d(inputs, outputs, 1),
    )


def _narrowed(inputs: int) -> nn.Module:
    if inputs == WIDTH:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(inputs, WIDTH, 1), nn.BatchNorm2d(WIDTH))


def _resized(x: torch.Tensor, steps: int) -> torch.Tensor:
    """Halve (steps above 0) or double the height and width so often."""
    if steps < 0:
        return functional.interpolate(x, scale_factor=2.0**-steps, mode="nearest")
    for _ in range(steps):
        x = functional.max_pool2d(x, 3, 2, 1)
    return x


class _Node(nn.Module):
    """A weighted sum of levels ("fast normalized fusion"), and a separable convolution."""

    def __init__(self, inputs: Sequence[int]) -> None:
        super().__init__()
        self.narrow = nn.ModuleList(_narrowed(width) for width in inputs)
        self.weights = nn.Parameter(torch.ones(len(inputs)))
        self.filter = nn.Sequential(nn.SiLU(), _separable(WIDTH, WIDTH), nn.BatchNorm2d(WIDTH))

    def forward(self, parts: Sequence[torch.Tensor], steps: Sequence[int]) -> torch.Tensor:
        """Return the node of the parts, each so many levels above it."""
        positive = torch.relu(self.weights)
        shares = positive / (positive.sum() + EPSILON)
        both = zip(self.narrow, parts, steps, strict=True)
        levels = [_resized(narrow(part), count) for narrow, part, count in both]
        summed = shares[0] * levels[0]
        for share, level in zip(shares[1:], levels[1:], strict=True):
            summed = summed + share * level
        return self.filter(summed)


class _Pyramid(nn.Module):
    """A bidirectional feature pyramid."""

    def __init__(self, inputs: Sequence[int]) -> None:
        super().__init__()
        widths = [*inputs, *[WIDTH] * len(NODES)]
        self.nodes = nn.ModuleList(_Node([widths[part] for part in parts]) for _, parts in NODES)

    def forward(self, levels: list[torch.Tensor]) -> list[torch.Tensor]:
        """Return five levels of five, finest first."""
        found = list(levels)
        places = list(range(LEVELS))
        for node, (level, parts) in zip(self.nodes, NODES, strict=True):
            found.append(node([found[part] for part in parts], [level - places[p] for p in parts]))
            places.append(level)
        return [found[max(i for i, at in enumerate(places) if at == k)] for k in range(LEVELS)]


class _Head(nn.Module):
    """Separable convolutions that all levels share, with norms of each level's own."""

    def __init__(self, each: int) -> None:
        super().__init__()
        self.each = each
        self.layers = nn.ModuleList(_separable(WIDTH, WIDTH) for _ in range(HEAD_LAYERS))
        self.norms = nn.ModuleList(
            nn.ModuleList(nn.BatchNorm2d(WIDTH) for _ in range(HEAD_LAYERS)) for _ in range(LEVELS)
        )
        self.last = _separable(WIDTH, ANCHORS * each)

    def forward(self, levels: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return ``(n, anchors of all levels, each)``."""
        rows = []
        for x, norms in zip(levels, self.norms, strict=True):
            y = x
            for layer, norm in zip(self.layers, norms, strict=True):
                y = functional.silu(norm(layer(y)))
            rows.append(self.last(y).permute(0, 2, 3, 1).flatten(1).unflatten(1, (-1, self.each)))
        return torch.cat(rows, 1)


class EfficientDetD0(nn.Module):
    """EfficientDet-D0 up to its scores and boxes, before they are decoded and picked."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = backbone_b0()
        self.coarser = _narrowed(STAGE_WIDTHS[-1])
        first = (*STAGE_WIDTHS, WIDTH, WIDTH)
        self.pyramids = nn.ModuleList(
            _Pyramid(first if index == 0 else [WIDTH] * LEVELS) for index in range(PYRAMIDS)
        )
        self.classes = _Head(CLASSES)
        self.boxes = _Head(CORNERS)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map ``(n, 3, 512, 512)`` to ``(n, 49104, 90)`` scores and ``(n, 49104, 4)`` boxes."""
        levels = []
        for index, layer in enumerate(self.backbone):
            image = layer(image)
            if index in STAGE_ENDS:
                levels.append(image)
        sixth = _resized(self.coarser(image), 1)
        levels += [sixth, _resized(sixth, 1)]
        for pyramid in self.pyramids:
            levels = pyramid(levels)
        return self.classes(levels), self.boxes(levels)
