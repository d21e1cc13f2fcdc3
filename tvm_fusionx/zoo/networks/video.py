"""C3D (Tran et al., ICCV 2015) and S3D (Xie et al., ECCV 2018): clips of frames to classes."""

from __future__ import annotations

import torch
from torch import nn

# C3D's eight convolutions by stage, each stage ended by a pool; the first pool keeps the frames.
C3D_STAGES = ((64,), (128,), (256, 256), (512, 512), (512, 512))
C3D_HIDDEN = 4096
C3D_CLASSES = 487  # Sports-1M
# The last pool sees 14 x 14 / 2 = 7 and pads it at the far end to 8: 2 frames of 7 become 1 of 4.
C3D_LAST_SIZE = 4

S3D_CLASSES = 400  # Kinetics
S3D_STEM_KERNEL = 7
S3D_NORM_EPSILON = 1e-3
# Channels of an Inception block's branches: 1x1x1; 1x1x1 then 3x3x3; the same; pool then 1x1x1.
# A number in place of a block is the stride of a pool in time; in space it is 2.
S3D_BLOCKS: tuple[tuple[int, int, int, int, int, int], ...] = (
    (64, 96, 128, 16, 32, 32),
    (128, 128, 192, 32, 96, 64),
    (192, 96, 208, 16, 48, 64),
    (160, 112, 224, 24, 64, 64),
    (128, 128, 256, 24, 64, 64),
    (112, 144, 288, 32, 64, 64),
    (256, 160, 320, 32, 128, 128),
    (256, 160, 320, 32, 128, 128),
    (384, 192, 384, 48, 128, 128),
)
# Blocks before which a pool halves frames and size: (kernel, padding) by block.
S3D_POOLS = {2: (3, 1), 7: (2, 0)}


def c3d() -> nn.Sequential:
    """Return C3D: ``(n, 3, 16, 112, 112)`` to 487 scores."""
    channels = 3
    layers: list[nn.Module] = []
    for stage, widths in enumerate(C3D_STAGES):
        for outputs in widths:
            layers += [nn.Conv3d(channels, outputs, 3, padding=1), nn.ReLU()]
            channels = outputs
        is_last = stage == len(C3D_STAGES) - 1
        frames = 1 if stage == 0 else 2
        layers.append(nn.MaxPool3d((frames, 2, 2), padding=(0, 1, 1) if is_last else 0))
    layers += [
        nn.Flatten(),
        nn.Linear(channels * C3D_LAST_SIZE * C3D_LAST_SIZE, C3D_HIDDEN),
        nn.ReLU(),
        nn.Linear(C3D_HIDDEN, C3D_HIDDEN),
        nn.ReLU(),
        nn.Linear(C3D_HIDDEN, C3D_CLASSES),
    ]
    return nn.Sequential(*layers)


def _conv3d(
    inputs: int, outputs: int, kernel: tuple[int, int, int], stride: tuple[int, int, int]
) -> list[nn.Module]:
    padding = tuple(extent // 2 for extent in kernel)
    return [
        nn.Conv3d(inputs, outputs, kernel, stride, padding, bias=False),
        nn.BatchNorm3d(outputs, eps=S3D_NORM_EPSILON),
        nn.ReLU(),
    ]


def _pointwise(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(*_conv3d(inputs, outputs, (1, 1, 1), (1, 1, 1)))


def _separable(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution over space and one over time, which is the S of S3D."""
    return nn.Sequential(
        *_conv3d(inputs, outputs, (1, kernel, kernel), (1, stride, stride)),
        *_conv3d(outputs, outputs, (kernel, 1, 1), (stride, 1, 1)),
    )


class SeparableInception(nn.Module):
    """Inception's four branches over a clip, their convolutions separated."""

    def __init__(self, inputs: int, channels: tuple[int, int, int, int, int, int]) -> None:
        super().__init__()
        point, second_in, second, third_in, third, pooled = channels
        self.branches = nn.ModuleList(
            [
                _pointwise(inputs, point),
                nn.Sequential(_pointwise(inputs, second_in), _separable(second_in, second, 3)),
                nn.Sequential(_pointwise(inputs, third_in), _separable(third_in, third, 3)),
                nn.Sequential(nn.MaxPool3d(3, 1, padding=1), _pointwise(inputs, pooled)),
            ]
        )
        self.outputs = point + second + third + pooled

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, inputs, t, h, w)`` to ``(n, outputs, t, h, w)``."""
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class S3D(nn.Module):
    """The stem, nine separated Inception blocks, and the mean of the scores over the clip."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            _separable(3, 64, S3D_STEM_KERNEL, 2),
            nn.MaxPool3d((1, 3, 3), (1, 2, 2), padding=(0, 1, 1)),
            _pointwise(64, 64),
            _separable(64, 192, 3),
            nn.MaxPool3d((1, 3, 3), (1, 2, 2), padding=(0, 1, 1)),
        ]
        channels = 192
        for index, widths in enumerate(S3D_BLOCKS):
            if index in S3D_POOLS:
                kernel, padding = S3D_POOLS[index]
                layers.append(nn.MaxPool3d(kernel, 2, padding=padding))
            block = SeparableInception(channels, widths)
            layers.append(block)
            channels = block.outputs
        self.features = nn.Sequential(*layers)
        self.pool = nn.AvgPool3d((2, 7, 7), stride=1)
        self.head = nn.Conv3d(channels, S3D_CLASSES, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map ``(n, 3, frames, 224, 224)`` to 400 scores."""
        return self.head(self.pool(self.features(x))).mean(dim=(2, 3, 4))
