"""One decoder block of Llama 3.2 1B (Dubey et al. 2024), as it reads a prompt.

The cut: the block before the first one's embedding and after the last one's norm; no cache, since
nothing was read before.
"""

from __future__ import annotations

import torch
from torch import nn

# The published configuration of the model of 1 billion parameters.
FEATURES = 2048
HEADS = 32
KEY_VALUE_HEADS = 8
HEAD_FEATURES = FEATURES // HEADS
INTERMEDIATE = 8192
NORM_EPSILON = 1e-5
ROTARY_BASE = 500_000.0


class RootMeanSquareNorm(nn.Module):
    """Scale each row to a root mean square of 1 (Zhang and Sennrich 2019)."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(..., features)`` to the same shape."""
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + NORM_EPSILON))


def _rotation(tokens: int, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the cosines and sines of every token's angles, ``(tokens, head features)``."""
    exponents = torch.arange(0, HEAD_FEATURES, 2, device=x.device) / HEAD_FEATURES
    angles = torch.arange(tokens, device=x.device)[:, None] / ROTARY_BASE ** exponents[None]
    both = torch.cat([angles, angles], dim=-1)
    return both.cos(), both.sin()


def _rotate(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
    """Turn each pair of features by its token's angle (Su et al. 2021)."""
    first, second = x.chunk(2, dim=-1)
    return x * cosines + torch.cat([-second, first], dim=-1) * sines


class GroupedQueryAttention(nn.Module):
    """Causal attention in which four query heads share a key and a value head."""

    def __init__(self) -> None:
        super().__init__()
        narrow = KEY_VALUE_HEADS * HEAD_FEATURES
        self.query = nn.Linear(FEATURES, FEATURES, bias=False)
        self.key = nn.Linear(FEATURES, narrow, bias=False)
        self.value = nn.Linear(FEATURES, narrow, bias=False)
        self.output = nn.Linear(FEATURES, FEATURES, bias=False)

    def _split(self, x: torch.Tensor, heads: int) -> torch.Tensor:
        return x.reshape(x.shape[0], x.shape[1], heads, HEAD_FEATURES).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, tokens, features)`` to the same shape."""
        batch, tokens, _ = x.shape
        cosines, sines = _rotation(tokens, x)
        query = _rotate(self._split(self.query(x), HEADS), cosines, sines)
        key = _rotate(self._split(self.key(x), KEY_VALUE_HEADS), cosines, sines)
        value = self._split(self.value(x), KEY_VALUE_HEADS)
        group = HEADS // KEY_VALUE_HEADS
        key = key.repeat_interleave(group, dim=1)
        value = value.repeat_interleave(group, dim=1)
        scores = query @ key.transpose(2, 3) / HEAD_FEATURES**0.5
        later = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        scores = scores.masked_fill(later, torch.finfo(scores.dtype).min)
        mixed = (scores.softmax(-1) @ value).transpose(1, 2)
        return self.output(mixed.reshape(batch, tokens, FEATURES))


class GatedFeedForward(nn.Module):
    """Two widening products, one gating the other, and a narrowing one (Shazeer 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(FEATURES, INTERMEDIATE, bias=False)
        self.up = nn.Linear(FEATURES, INTERMEDIATE, bias=False)
        self.down = nn.Linear(INTERMEDIATE, FEATURES, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, tokens, features)`` to the same shape."""
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class LlamaBlock(nn.Module):
    """Attention and feed-forward, each behind a norm and added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.attention_norm = RootMeanSquareNorm(FEATURES)
        self.attention = GroupedQueryAttention()
        self.feed_forward_norm = RootMeanSquareNorm(FEATURES)
        self.feed_forward = GatedFeedForward()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, tokens, 2048)`` to the same shape."""
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))
