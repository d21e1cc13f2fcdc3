"""Conformer's encoder, size S (Gulati et al., Interspeech 2020, table 1)."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional

BANDS = 80
WIDTH = 144
HEADS = 4
BLOCKS = 16
KERNEL = 32
EXPANSION = 4
LONGEST = 10_000.0


def _positions(length: int) -> torch.Tensor:
    """Return sinusoids of the distances from ``length - 1`` down to ``1 - length``, a row each."""
    distance = torch.arange(length - 1, -length, -1.0)[:, None]
    rate = torch.exp(torch.arange(0, WIDTH, 2.0) * (-math.log(LONGEST) / WIDTH))
    return torch.stack((torch.sin(distance * rate), torch.cos(distance * rate)), -1).flatten(1)


class _FeedForward(nn.Sequential):
    """A norm and two dense layers, of which half is added."""

    def __init__(self) -> None:
        super().__init__(
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, EXPANSION * WIDTH),
            nn.SiLU(),
            nn.Linear(EXPANSION * WIDTH, WIDTH),
        )


class _Attention(nn.Module):
    """Self-attention with relative distances, as Transformer-XL has it (Dai et al., ACL 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key = nn.Linear(WIDTH, WIDTH)
        self.value = nn.Linear(WIDTH, WIDTH)
        self.distance = nn.Linear(WIDTH, WIDTH, bias=False)
        self.of_content = nn.Parameter(torch.zeros(HEADS, 1, WIDTH // HEADS))
        self.of_distance = nn.Parameter(torch.zeros(HEADS, 1, WIDTH // HEADS))
        self.last = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, frames, width)`` to the same shape."""
        y = self.norm(x)
        length = x.shape[1]
        query, key, value = (
            part(y).unflatten(2, (HEADS, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        distance = self.distance(_positions(length).to(x.device))
        distance = distance.unflatten(1, (HEADS, -1)).permute(1, 2, 0)
        scores = (query + self.of_content) @ key.transpose(2, 3)
        scores = scores + _shifted((query + self.of_distance) @ distance, length)
        weights = torch.softmax(scores / math.sqrt(WIDTH // HEADS), -1)
        return self.last((weights @ value).transpose(1, 2).flatten(2))


def _shifted(scores: torch.Tensor, length: int) -> torch.Tensor:
    """Return ``(n, heads, length, length)``: of each row the distances that it has to all frames.

    Row `i` begins `i` columns further left: a column more, and the rows read one place later.
    """
    batch, heads = scores.shape[:2]
    rows = functional.pad(scores, (1, 0)).reshape(batch, heads, 2 * length, length)
    return rows[:, :, 1:].reshape(batch, heads, length, 2 * length - 1)[..., :length]


class _Convolution(nn.Module):
    """A gated pointwise, a depthwise and a pointwise convolution over time."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.gated = nn.Conv1d(WIDTH, 2 * WIDTH, 1)
        self.depthwise = nn.Conv1d(WIDTH, WIDTH, KERNEL, groups=WIDTH)
        self.batch_norm = nn.BatchNorm1d(WIDTH)
        self.last = nn.Conv1d(WIDTH, WIDTH, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, frames, width)`` to the same shape."""
        y = functional.glu(self.gated(self.norm(x).transpose(1, 2)), 1)
        y = self.depthwise(functional.pad(y, ((KERNEL - 1) // 2, KERNEL // 2)))
        return self.last(functional.silu(self.batch_norm(y))).transpose(1, 2)


class _Block(nn.Module):
    """Half a feed-forward, attention, convolution, the other half."""

    def __init__(self) -> None:
        super().__init__()
        self.first = _FeedForward()
        self.attention = _Attention()
        self.convolution = _Convolution()
        self.second = _FeedForward()
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, frames, width)`` to the same shape."""
        x = x + 0.5 * self.first(x)
        x = x + self.attention(x)
        x = x + self.convolution(x)
        return self.norm(x + 0.5 * self.second(x))


class ConformerEncoder(nn.Module):
    """A quarter of the frames by two strided convolutions, then sixteen blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.fewer = nn.Sequential(
            nn.Conv2d(1, WIDTH, 3, 2, 1), nn.ReLU(), nn.Conv2d(WIDTH, WIDTH, 3, 2, 1), nn.ReLU()
        )
        self.first = nn.Linear(WIDTH * BANDS // 4, WIDTH)
        self.blocks = nn.Sequential(*(_Block() for _ in range(BLOCKS)))

    def forward(self, spectrogram: torch.Tensor) -> torch.Tensor:
        """Map ``(n, 80, frames)`` of 10 ms to ``(n, frames / 4, 144)``."""
        x = self.fewer(spectrogram.transpose(1, 2).unsqueeze(1))
        return self.blocks(self.first(x.transpose(1, 2).flatten(2)))
