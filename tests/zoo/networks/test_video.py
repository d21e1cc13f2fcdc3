"""C3D and S3D: the counts of the papers and of the reference implementations."""

from __future__ import annotations

import pytest

from tests.zoo.networks.published import count, printed

pytest.importorskip("torch")
video = pytest.importorskip("tvm_fusionx.zoo.networks.video")


def test_c3d_counts_are_the_published_ones():
    counted = count(video.c3d, (1, 3, 16, 112, 112))
    # 38.5G for 16 frames of 112x112: Tran et al. 2018, table 4.
    assert counted.multiply_adds == printed("38.5G")
    # Tran et al. 2015 print no count; 27.7M are in the eight convolutions, 52.3M in the classifier.
    assert counted.parameters == printed("80.0M")
    assert counted.outputs == [(1, 487)]


def test_s3d_counts_are_those_of_torchvision():
    counted = count(video.S3D, (1, 3, 16, 224, 224))
    # Documented with torchvision's weights.
    assert counted.parameters == 8_320_048
    assert counted.multiply_adds == printed("17.98G")
    assert counted.outputs == [(1, 400)]
