"""Networks of pictures, points and tables, after papers, as torch modules: see wild_modules."""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from wild_modules import _conv


class SuperResolution(nn.Module):
    """ESPCN (Shi et al., 2016): channels become pixels at the end."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(3, 64, 5, 1, 2), nn.Tanh(), nn.Conv2d(64, 32, 3, 1, 1), nn.Tanh()),
            *(nn.Conv2d(32, 27, 3, 1, 1), nn.PixelShuffle(3)),
        )

    def forward(self, x: Any) -> Any:
        """Return a picture three times as large."""
        return self.layers(x)


class DiffusionUNet(nn.Module):
    """Residual blocks with group norms, and attention over pixels (Ho et al., 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(4, 96, 3, 1, 1), nn.Conv2d(96, 4, 3, 1, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *(nn.GroupNorm(32, 96), nn.SiLU(), nn.Conv2d(96, 96, 3, 1, 1)),
                *(nn.GroupNorm(32, 96), nn.SiLU(), nn.Conv2d(96, 96, 3, 1, 1)),
            )
            for _ in range(3)
        )
        self.norm, self.attention = nn.GroupNorm(32, 96), nn.MultiheadAttention(96, 4)

    def forward(self, x: Any) -> Any:
        """Return the noise of a picture."""
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        y = self.norm(x).flatten(2).permute(2, 0, 1)
        y = self.attention(y, y, y, need_weights=False)[0]
        return self.last(x + y.permute(1, 2, 0).reshape(x.shape))


class PointNet(nn.Module):
    """Points one by one, then the largest of each feature (Qi et al., 2016)."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 64, 128, 512)
        self.layers = nn.Sequential(
            *(
                nn.Sequential(nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())
                for a, b in itertools.pairwise(widths)
            )
        )
        self.head = nn.Linear(512, 40)

    def forward(self, x: Any) -> Any:
        """Return scores."""
        return self.head(self.layers(x).amax(2))


class Fire(nn.Module):
    """Fire modules (Iandola et al., 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.MaxPool2d(3, 2))
        self.squeeze = nn.ModuleList(nn.Conv2d(a, 16, 1) for a in (64, 128))
        self.small, self.large = (
            nn.ModuleList(nn.Conv2d(16, 64, k, 1, k // 2) for _ in range(2)) for k in (1, 3)
        )

    def forward(self, x: Any) -> Any:
        """Return pooled features."""
        x = self.stem(x)
        for squeeze, small, large in zip(self.squeeze, self.small, self.large, strict=True):
            y = functional.relu(squeeze(x))
            x = functional.relu(torch.cat([small(y), large(y)], 1))
        return x.mean((2, 3))


class Dense(nn.Module):
    """A dense block and its transition (Huang et al., 2016)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.layers = nn.ModuleList(
            nn.Sequential(
                *(nn.BatchNorm2d(64 + 32 * at), nn.ReLU(), nn.Conv2d(64 + 32 * at, 128, 1)),
                *(nn.BatchNorm2d(128), nn.ReLU(), nn.Conv2d(128, 32, 3, 1, 1)),
            )
            for at in range(6)
        )
        self.after = nn.Sequential(nn.Conv2d(256, 128, 1), nn.AvgPool2d(2))

    def forward(self, x: Any) -> Any:
        """Return a map of features."""
        x = self.stem(x)
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return self.after(x)


class Shuffle(nn.Module):
    """Units of ShuffleNet v2 (Ma et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 116, 3, 2), nn.MaxPool2d(3, 2, 1))
        self.units = nn.ModuleList(
            nn.Sequential(_conv(58, 58, 1), nn.Conv2d(58, 58, 3, 1, 1, groups=58), _conv(58, 58, 1))
            for _ in range(4)
        )

    def forward(self, x: Any) -> Any:
        """Return pooled features."""
        x = self.stem(x)
        for unit in self.units:
            kept, moved = x.chunk(2, 1)
            x = torch.cat([kept, unit(moved)], 1)
            x = x.unflatten(1, (2, 58)).transpose(1, 2).flatten(1, 2)
        return x.mean((2, 3))


class Generator(nn.Module):
    """The generator of DCGAN (Radford et al., 2015)."""

    def __init__(self) -> None:
        super().__init__()
        widths = (100, 256, 128, 64)
        layers: list[nn.Module] = []
        for at, (a, b) in enumerate(itertools.pairwise(widths)):
            layers += [nn.ConvTranspose2d(a, b, 4, 2 if at else 1, 1 if at else 0)]
            layers += [nn.BatchNorm2d(b), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())

    def forward(self, x: Any) -> Any:
        """Return pictures."""
        return self.layers(x)


class Clicks(nn.Module):
    """DLRM (Naumov et al., 2019): products of all pairs of features."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 26 * 32))
        self.top = nn.Sequential(nn.Linear(26 * 26, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, x: Any) -> Any:
        """Return a probability."""
        rows = self.bottom(x).unflatten(1, (26, 32))
        return torch.sigmoid(self.top((rows @ rows.transpose(1, 2)).flatten(1)))


class Pyramid(nn.Module):
    """A feature pyramid (Lin et al., 2016), resized to odd sizes."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 32, 64, 96, 128)
        self.down = nn.ModuleList(_conv(a, b, 3, 2) for a, b in itertools.pairwise(widths))
        self.side = nn.ModuleList(nn.Conv2d(b, 64, 1) for b in widths[1:])
        self.smooth = nn.Conv2d(64, 64, 3, 1, 1)

    def forward(self, x: Any) -> Any:
        """Return the largest map."""
        maps = []
        for layer in self.down:
            x = layer(x)
            maps.append(x)
        y = self.side[-1](maps[-1])
        for side, features in zip(self.side[-2::-1], maps[-2::-1], strict=False):
            size = features.shape[2:]
            resized = functional.interpolate(y, size=size, mode="bilinear", align_corners=False)
            y = side(features) + resized
        return self.smooth(y)


class Radiance(nn.Module):
    """The dense layers of a radiance field (Mildenhall et al., 2020), with a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.ModuleList(nn.Linear(a, 128) for a in (63, 128, 128))
        self.then = nn.ModuleList(nn.Linear(a, 128) for a in (191, 128))
        self.last = nn.Linear(128, 4)

    def forward(self, x: Any) -> Any:
        """Return colour and density of each point."""
        y = x
        for layer in self.first:
            y = functional.relu(layer(y))
        y = torch.cat([y, x], 1)
        for layer in self.then:
            y = functional.relu(layer(y))
        return self.last(y)


class Atrous(nn.Module):
    """Dilated windows beside each other and a pooled one (Chen et al., 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 32, 3, 2), _conv(32, 64, 3, 2), _conv(64, 128, 3, 2))
        self.windows = nn.ModuleList(
            nn.Conv2d(128, 48, 3, padding=rate, dilation=rate) for rate in (1, 6, 12)
        )
        self.pooled, self.head = nn.Conv2d(128, 48, 1), nn.Conv2d(192, 21, 1)

    def forward(self, x: Any) -> Any:
        """Return scores of each pixel."""
        size = x.shape[2:]
        x = self.stem(x)
        parts = [window(x) for window in self.windows]
        pooled = self.pooled(x.mean((2, 3), keepdim=True))
        x = self.head(functional.relu(torch.cat([*parts, pooled.expand_as(parts[0])], 1)))
        return functional.interpolate(x, size=size, mode="bilinear", align_corners=False)
