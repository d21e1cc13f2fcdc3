"""R(2+1)D: the counts of torchvision's model of 18 layers."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
video = pytest.importorskip("tvm_fusionx.zoo.networks.separated_video")


def test_counts_are_those_of_torchvision():
    counted = count(video.r2plus1d_18, (1, 3, 16, 112, 112))
    # Documented with torchvision's weights.
    assert counted.parameters == 31_505_325
    assert counted.multiply_adds == printed("40.52G")
    assert counted.outputs == [(1, 400)]
