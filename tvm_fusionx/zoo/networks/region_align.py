"""Regions of a map, resampled to one size (RoIAlign; He et al., ICCV 2017), by plain sampling."""

from __future__ import annotations

import torch
from torch import nn

# Points sampled a bin and axis, as published.
SAMPLES = 2


def align_regions(
    features: torch.Tensor, regions: torch.Tensor, stride: int, size: int
) -> torch.Tensor:
    """Return each region's `size` x `size` bins, each the mean of 2 x 2 interpolated points.

    Parameters
    ----------
    features
        ``(n, channels, h, w)``.
    regions
        ``(count, 4)``: left, top, right and bottom in the picture's pixels, the same for every
        picture.
    stride
        Pixels of the picture to one of the map.
    size
        Bins a side.

    Returns
    -------
    bins
        ``(n * count, channels, size, size)``.
    """
    batch, channels, height, width = features.shape
    count = regions.shape[0]
    points = size * SAMPLES
    places = (torch.arange(points, device=features.device) + 0.5) / points
    left, top, right, bottom = (regions / stride).unbind(dim=1)
    columns = left[:, None] + (right - left)[:, None] * places
    rows = top[:, None] + (bottom - top)[:, None] * places
    # grid_sample wants -1 and 1 at the map's outer edges; a pixel's number is its centre.
    columns = (2 * columns + 1) / width - 1
    rows = (2 * rows + 1) / height - 1
    grid = torch.stack(
        [
            columns[:, None, :].expand(count, points, points),
            rows[:, :, None].expand(count, points, points),
        ],
        dim=-1,
    ).reshape(1, count * points, points, 2)
    sampled = nn.functional.grid_sample(
        features, grid.expand(batch, -1, -1, -1), padding_mode="border", align_corners=False
    )
    bins = nn.functional.avg_pool2d(sampled, SAMPLES)
    bins = bins.reshape(batch, channels, count, size, size).transpose(1, 2)
    return bins.reshape(batch * count, channels, size, size)
