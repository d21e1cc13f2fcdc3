"""Networks after papers, small, as torch modules: kinds that no model of the zoo has.

Each class is one kind; what it takes and its numbers are in ``wild_networks.json``. Imported in
processes of torch only.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional


def _conv(inputs: int, outputs: int, size: int = 3, stride: int = 1, **options: Any) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False, **options),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Recurrent(nn.Module):
    """Layers of one recurrent kind and a classifier of each step."""

    def __init__(self, kind: str, features: int, hidden: int, layers: int, both: bool) -> None:
        super().__init__()
        self.layers = getattr(nn, kind)(
            features, hidden, layers, batch_first=True, bidirectional=both
        )
        self.head = nn.Linear(hidden * (2 if both else 1), 50)

    def forward(self, x: Any) -> Any:
        """Return a row of scores a step."""
        return self.head(self.layers(x)[0])


class TextLines(nn.Module):
    """CRNN (Shi et al., 2015): convolutions down to one row, then two LSTMs along it."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            *(_conv(1, 32), nn.MaxPool2d(2), _conv(32, 64), nn.MaxPool2d(2)),
            *(_conv(64, 128), nn.MaxPool2d((2, 1)), _conv(128, 128), nn.MaxPool2d((4, 1))),
        )
        self.layers = nn.LSTM(128, 128, 2, bidirectional=True)
        self.head = nn.Linear(256, 97)

    def forward(self, x: Any) -> Any:
        """Return scores of each column."""
        columns = self.stem(x).squeeze(2).permute(2, 0, 1)
        return self.head(self.layers(columns)[0])


class GroupedConvolutions(nn.Module):
    """Blocks of ResNeXt (Xie et al., 2016)."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(_conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        widths = (64, 128, 256)
        self.inner = nn.ModuleList(
            nn.Sequential(
                _conv(w, w * 2, 1), _conv(w * 2, w * 2, groups=groups), _conv(w * 2, w, 1)
            )
            for w in widths
        )
        self.down = nn.ModuleList(_conv(w, 2 * w, 3, 2) for w in widths)

    def forward(self, x: Any) -> Any:
        """Return the pooled features."""
        x = self.stem(x)
        for inner, down in zip(self.inner, self.down, strict=True):
            x = down(x + inner(x))
        return x.mean((2, 3))


class ImageToImage(nn.Module):
    """The generator of fast style transfer and CycleGAN (Johnson et al., 2016), slim."""

    def __init__(self, norm: str) -> None:
        super().__init__()

        def normed(width: int) -> nn.Module:
            # One group is a norm over the whole image.
            return nn.InstanceNorm2d(width) if norm == "instance" else nn.GroupNorm(1, width)

        def layer(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Module:
            return nn.Sequential(
                nn.ReflectionPad2d(size // 2),
                nn.Conv2d(inputs, outputs, size, stride),
                normed(outputs),
                nn.ReLU(),
            )

        self.down = nn.Sequential(layer(3, 32, 9), layer(32, 64, 3, 2), layer(64, 96, 3, 2))
        self.inner = nn.ModuleList(
            nn.Sequential(layer(96, 96, 3), nn.ReflectionPad2d(1), nn.Conv2d(96, 96, 3), normed(96))
            for _ in range(3)
        )
        self.up = nn.Sequential(
            *(nn.Upsample(scale_factor=2), layer(96, 64, 3)),
            *(nn.Upsample(scale_factor=2), layer(64, 32, 3), nn.Conv2d(32, 3, 9, 1, 4), nn.Tanh()),
        )

    def forward(self, x: Any) -> Any:
        """Return a picture."""
        x = self.down(x)
        for inner in self.inner:
            x = x + inner(x)
        return self.up(x)


class Bytes(nn.Module):
    """A classifier over bytes with wide gated convolutions of large stride (MalConv, 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(257, 8)
        self.values, self.gates = (nn.Conv1d(8, 128, 64, 64) for _ in range(2))
        self.head = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, x: Any) -> Any:
        """Return two scores."""
        x = self.table(x).transpose(1, 2)
        return self.head((self.values(x) * torch.sigmoid(self.gates(x))).amax(2))


class TextConvolutions(nn.Module):
    """Windows of words, pooled over all places (Kim, 2014)."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 128)
        self.windows = nn.ModuleList(nn.Conv1d(128, 100, size) for size in (3, 4, 5))
        self.head = nn.Linear(300, 2)

    def forward(self, x: Any) -> Any:
        """Return two scores."""
        x = self.table(x).transpose(1, 2)
        return self.head(torch.cat([functional.relu(w(x)).amax(2) for w in self.windows], 1))


class Temporal(nn.Module):
    """Dilated convolutions along time (Bai et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        widths = [16, *[64] * 6]
        self.layers = nn.ModuleList(
            nn.Conv1d(first, then, 3, dilation=2**at, padding=2 * 2**at)
            for at, (first, then) in enumerate(itertools.pairwise(widths))
        )

    def forward(self, x: Any) -> Any:
        """Return features of each step."""
        for at, layer in enumerate(self.layers):
            after = functional.relu(layer(x)[..., : -2 * 2**at])
            x = after + x if after.shape == x.shape else after
        return x


class Separator(nn.Module):
    """Conv-TasNet (Luo and Mesgarani, 2018): an encoder of one channel, and norms over it all."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Conv1d(1, 256, 16, 8, bias=False)
        self.norm, self.narrow = nn.GroupNorm(1, 256), nn.Conv1d(256, 96, 1)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                *(nn.Conv1d(96, 192, 1), nn.PReLU(), nn.GroupNorm(1, 192)),
                nn.Conv1d(192, 192, 3, padding=2**at, dilation=2**at, groups=192),
                *(nn.PReLU(), nn.GroupNorm(1, 192), nn.Conv1d(192, 96, 1)),
            )
            for at in range(5)
        )
        self.mask = nn.Conv1d(96, 256, 1)
        self.decode = nn.ConvTranspose1d(256, 1, 16, 8, bias=False)

    def forward(self, x: Any) -> Any:
        """Return one voice."""
        encoded = self.encode(x)
        y = self.narrow(self.norm(encoded))
        for block in self.blocks:
            y = y + block(y)
        return self.decode(encoded * torch.sigmoid(self.mask(y)))


class WaveUNet(nn.Module):
    """A U-Net of sound (Stoller et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 24, 48, 72, 96)
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList(nn.Conv1d(a, b, 15, padding=7) for a, b in pairs)
        self.up = nn.ModuleList(nn.Conv1d(2 * b, max(a, 24), 5, padding=2) for a, b in pairs[::-1])
        self.last = nn.Conv1d(24, 1, 1)

    def forward(self, x: Any) -> Any:
        """Return sound of the same length."""
        kept = []
        for layer in self.down:
            x = functional.leaky_relu(layer(x), 0.2)
            kept.append(x)
            x = x[..., ::2]
        for layer in self.up:
            x = functional.interpolate(x, scale_factor=2.0, mode="linear", align_corners=False)
            x = functional.leaky_relu(layer(torch.cat([x, kept.pop()], 1)), 0.2)
        return torch.tanh(self.last(x))


class Mixer(nn.Module):
    """MLP-Mixer (Tolstikhin et al., 2021), tiny."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 192, 16, 16)
        self.layers = nn.ModuleList(
            nn.ModuleList(
                [
                    *(nn.LayerNorm(192), nn.Linear(196, 96), nn.Linear(96, 196)),
                    *(nn.LayerNorm(192), nn.Linear(192, 768), nn.Linear(768, 192)),
                ]
            )
            for _ in range(4)
        )

    def forward(self, x: Any) -> Any:
        """Return features of the patches."""
        x = self.patches(x).flatten(2).transpose(1, 2)
        for first, up, down, second, wide, narrow in self.layers:
            x = x + down(functional.gelu(up(first(x).transpose(1, 2)))).transpose(1, 2)
            x = x + narrow(functional.gelu(wide(second(x))))
        return x


class ConformerBlocks(nn.Module):
    """Two blocks of a Conformer (Gulati et al., 2020)."""

    def __init__(self) -> None:
        super().__init__()
        width = 144
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "first": _feed_forward(width),
                    "norm": nn.LayerNorm(width),
                    "attention": nn.MultiheadAttention(width, 4, batch_first=True),
                    "before": nn.LayerNorm(width),
                    "gate": nn.Conv1d(width, 2 * width, 1),
                    "depthwise": nn.Conv1d(width, width, 31, padding=15, groups=width),
                    "batch": nn.BatchNorm1d(width),
                    "after": nn.Conv1d(width, width, 1),
                    "second": _feed_forward(width),
                    "last": nn.LayerNorm(width),
                }
            )
            for _ in range(2)
        )

    def forward(self, x: Any) -> Any:
        """Return features of each frame."""
        for block in self.blocks:
            x = x + 0.5 * block["first"](x)
            y = block["norm"](x)
            x = x + block["attention"](y, y, y, need_weights=False)[0]
            y = functional.glu(block["gate"](block["before"](x).transpose(1, 2)), 1)
            y = functional.silu(block["batch"](block["depthwise"](y)))
            x = x + block["after"](y).transpose(1, 2)
            x = block["last"](x + 0.5 * block["second"](x))
        return x


def _feed_forward(width: int) -> nn.Module:
    return nn.Sequential(
        nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
    )
