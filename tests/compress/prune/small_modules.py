"""Small torch modules to prune, and data that they can learn in a second."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

# Layers of a few weights: threads would only wait for each other.
torch.set_num_threads(1)

CLASSES = 4


class Mixed(nn.Module):  # type: ignore[name-defined,misc]
    """Every kind of layer that has weights to prune."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(20, 6)
        self.features = nn.Sequential(
            nn.Conv2d(2, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
        )
        self.grouped = nn.Conv2d(8, 8, 3, groups=2)
        self.back = nn.ConvTranspose2d(8, 6, 3, groups=2)
        self.lstm = nn.LSTM(6, 8, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(16, 8, batch_first=True)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Any, words: Any) -> Any:
        """Return scores ``(N, classes)`` of pictures ``(N, 2, 5, 5)`` and words ``(N, 3)``."""
        pictures = self.back(self.grouped(self.features(x))).mean(-1).transpose(1, 2)
        states = self.gru(self.lstm(torch.cat([pictures, self.table(words)], 1))[0])[0]
        mixed = self.attention(states, states, states, need_weights=False)[0]
        return self.head(mixed.mean(1))


def mixed() -> Any:
    """Return :class:`Mixed` with seeded weights and a norm that has seen data."""
    torch.manual_seed(0)
    module = Mixed()
    module.train()
    module(*example(32))
    return module.eval()


def example(count: int = 2) -> tuple[Any, Any]:
    """Return inputs of :class:`Mixed`."""
    generator = torch.Generator().manual_seed(1)
    pictures = torch.randn(count, 2, 5, 5, generator=generator)
    return pictures, torch.randint(0, 20, (count, 3), generator=generator)


def perceptron(width: int = 32) -> Any:
    """Return a net of two layers, with dropout."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(16, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, CLASSES)
    )


def task(count: int = 512) -> tuple[Any, Any]:
    """Return inputs ``(count, 16)`` and classes that a :func:`perceptron` can tell apart."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(count, 16, generator=generator)
    teacher = torch.randn(16, CLASSES, generator=generator)
    teacher[4:] = 0
    return x, (x @ teacher).argmax(1)
