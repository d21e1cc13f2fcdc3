from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
region_align = pytest.importorskip("tvm_fusionx.zoo.networks.region_align")


def ramp(height: int, width: int) -> torch.Tensor:
    """Return a map whose value at a pixel's centre is 10 * row + column."""
    rows, columns = torch.arange(height)[:, None], torch.arange(width)[None]
    return (10.0 * rows + columns).reshape(1, 1, height, width)


def test_bins_of_a_ramp_are_its_values_at_their_centres() -> None:
    features = ramp(8, 8)
    # 4 pixels of the map on a side, from (1, 2): two bins of 2 pixels, centres at 2, 4 and 3, 5.
    regions = torch.tensor([[1.0, 2.0, 5.0, 6.0]]) * 4
    bins = region_align.align_regions(features, regions, stride=4, size=2)
    expected = torch.tensor([[10.0 * 3 + 2, 10.0 * 3 + 4], [10.0 * 5 + 2, 10.0 * 5 + 4]])
    assert torch.allclose(bins, expected.reshape(1, 1, 2, 2), rtol=1e-5)


def test_pictures_come_first_and_regions_second() -> None:
    features = torch.cat([ramp(8, 8), ramp(8, 8) + 100])
    regions = torch.tensor([[0.0, 0.0, 4.0, 4.0], [2.0, 2.0, 6.0, 6.0], [1.0, 3.0, 5.0, 7.0]])
    bins = region_align.align_regions(features, regions, stride=1, size=2)
    assert bins.shape == (6, 1, 2, 2)
    assert torch.allclose(bins[3:], bins[:3] + 100, rtol=1e-5)


def test_a_region_beyond_the_border_takes_the_border() -> None:
    features = ramp(4, 4)
    bins = region_align.align_regions(features, torch.tensor([[8.0, 8.0, 12.0, 12.0]]), 1, 2)
    assert torch.allclose(bins, torch.full((1, 1, 2, 2), 33.0))
