"""Layers that several families of convolutional networks are made of."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

Activation = Callable[[], nn.Module]


def conv_norm(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    activation: Activation | None = None,
) -> nn.Sequential:
    """Return a convolution that keeps the size (before its stride), batch norm and activation."""
    conv = nn.Conv2d(
        inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False
    )
    layers: list[nn.Module] = [conv, nn.BatchNorm2d(outputs)]
    if activation is not None:
        layers.append(activation())
    return nn.Sequential(*layers)


class SqueezeExcite(nn.Module):
    """Scale each channel by a gate computed from the means of all (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int, squeezed: int, inner: Activation, gate: Activation) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.squeeze = nn.Conv2d(channels, squeezed, 1)
        self.inner = inner()
        self.excite = nn.Conv2d(squeezed, channels, 1)
        self.gate = gate()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, channels, h, w)`` to the same shape."""
        return x * self.gate(self.excite(self.inner(self.squeeze(self.pool(x)))))


class InvertedResidual(nn.Module):
    """Expand by a 1x1 convolution, filter depthwise, project back (Sandler et al., CVPR 2018)."""

    def __init__(
        self,
        inputs: int,
        expanded: int,
        outputs: int,
        kernel: int,
        stride: int,
        activation: Activation,
        squeeze_excite: nn.Module | None = None,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        if expanded != inputs:
            layers.append(conv_norm(inputs, expanded, 1, activation=activation))
        layers.append(
            conv_norm(expanded, expanded, kernel, stride, groups=expanded, activation=activation)
        )
        if squeeze_excite is not None:
            layers.append(squeeze_excite)
        layers.append(conv_norm(expanded, outputs, 1))
        self.layers = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, h, w)`` to ``(n, outputs, h / stride, w / stride)``."""
        y = self.layers(x)
        return x + y if self.is_residual else y
